"""Readers of downloaded graphs: each yields nodes and edges with constant memory and reports what it passes over."""
