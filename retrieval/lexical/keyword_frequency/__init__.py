"""Rank passages by WeiseEule's keyword frequency."""
