"""Hold literature reviews that are documents, and compare states of evidence; pure."""
