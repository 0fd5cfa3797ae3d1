"""The knowledge graph: typed edges with provenance, kept, linked to and selected for a question."""
