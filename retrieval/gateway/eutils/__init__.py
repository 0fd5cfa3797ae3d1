"""Answer the E-utilities."""
