"""Serve the HTTP API: wire formats, routes, and what answers share."""
