"""Make, open, verify and delete namespaces."""
