"""Read, check and rebuild NCBI calls."""
