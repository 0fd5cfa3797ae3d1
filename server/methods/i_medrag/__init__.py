"""Answer after rounds of follow-up questions (i-MedRAG)."""
