"""Store a knowledge graph of typed edges with provenance, link questions to it, and select statements for them."""
