"""Finds evidence: NCBI, the local gateway, indices, the knowledge graph. Knows nothing of routes or prompts."""
