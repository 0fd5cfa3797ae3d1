"""Write BLAST results in NCBI's forms."""
