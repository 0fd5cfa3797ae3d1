"""Rank passages by BM25."""
