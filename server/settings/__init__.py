"""Read and check the operator's settings."""
