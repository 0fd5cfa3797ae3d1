"""Serve Anthropic's Messages API."""
