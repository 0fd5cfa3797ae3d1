"""Encode texts as vectors, and score pairs of texts."""
