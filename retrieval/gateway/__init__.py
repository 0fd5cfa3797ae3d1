"""Serve NCBI's E-utilities and BLAST URL API from local data, with replies in NCBI's format."""
