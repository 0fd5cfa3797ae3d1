"""Change namespaces in the background."""
