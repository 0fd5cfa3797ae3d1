"""Parse NCBI's replies and condense them for a model."""
