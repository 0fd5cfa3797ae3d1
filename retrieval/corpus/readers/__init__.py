"""Readers of documents, one file for each form, and the guess which of them a file needs."""
