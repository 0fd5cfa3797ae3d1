"""Decide what may leave this machine, and send it."""
