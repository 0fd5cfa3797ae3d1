"""Readers of the files that NCBI publishes for download. Pure streams: a file in, records out; no SQL, no network."""
