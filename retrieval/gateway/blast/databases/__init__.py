"""Build, find and choose BLAST databases."""
