"""Search namespaces."""
