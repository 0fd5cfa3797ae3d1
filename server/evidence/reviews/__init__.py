"""Hold literature reviews that are documents, and compare their runs; pure."""
