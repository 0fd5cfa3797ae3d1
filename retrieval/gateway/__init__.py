"""A local E-utilities and BLAST service over local data. Its replies have NCBI's shape."""
