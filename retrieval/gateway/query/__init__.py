"""Parse Entrez queries and evaluate them over the store."""
