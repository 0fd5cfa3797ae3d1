"""Serve literature reviews that are documents."""
