"""Find evidence: NCBI, the local gateway, indices, the knowledge graph; independent of routes and prompts."""
