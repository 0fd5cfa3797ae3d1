"""Read and check the parameters of a BLAST search."""
