"""Store the documents and passages of one namespace."""
