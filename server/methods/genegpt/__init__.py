"""Answer by NCBI calls in mid-sentence (GeneGPT)."""
