"""Serve the page for people: its files, and Markdown made safe for it."""
