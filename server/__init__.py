"""Serve the methods over HTTP and the command line; the only package that imports all the others."""
