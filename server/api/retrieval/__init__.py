"""Serve embeddings, re-ranking, searches, namespaces and their documents."""
