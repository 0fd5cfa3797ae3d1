"""Write records as NCBI's document summaries."""
