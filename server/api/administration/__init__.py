"""Serve what an administrator needs: keys, and what the server uses."""
