"""Answer from the statements of a knowledge graph (KG-RAG)."""
