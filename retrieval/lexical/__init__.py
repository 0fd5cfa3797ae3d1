"""Index the words of passages: tokens, BM25, keyword frequency, and the fusion of rankings."""
