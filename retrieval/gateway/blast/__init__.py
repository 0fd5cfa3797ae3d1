"""Answer NCBI's BLAST URL API with local searches."""
