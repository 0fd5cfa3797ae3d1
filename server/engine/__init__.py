"""Load, supervise and restart the engine."""
