"""Serve the Model Context Protocol: this server's searches, look-ups, checks and answers as tools of an agent."""
