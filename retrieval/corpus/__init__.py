"""Documents and namespaces: reading, cutting into passages, keeping, updating."""
