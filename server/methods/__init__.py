"""Implement the published systems, one readable file each.

Methods yield events and know nothing of HTTP.
"""
