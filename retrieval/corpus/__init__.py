"""Read documents, cut them into passages, and store and update these in namespaces."""
