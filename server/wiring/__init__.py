"""Build the concrete objects of a server from its settings."""
