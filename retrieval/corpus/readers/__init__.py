"""Read documents, with one module for each format, and guess the format of a file."""
