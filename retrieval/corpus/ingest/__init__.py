"""Bring documents into a namespace."""
