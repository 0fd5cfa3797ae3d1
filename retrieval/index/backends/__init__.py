"""Search one immutable segment of vectors, by faiss or torch."""
