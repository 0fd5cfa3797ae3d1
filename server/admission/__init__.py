"""Decide which request runs, waits or is refused."""
