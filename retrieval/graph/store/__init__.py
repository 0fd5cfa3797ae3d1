"""Build, open and verify graphs on disk."""
