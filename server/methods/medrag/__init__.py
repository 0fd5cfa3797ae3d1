"""Answer from passages of a library (MedRAG)."""
