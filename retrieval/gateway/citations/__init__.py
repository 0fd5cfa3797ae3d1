"""Read citations and write them as text."""
