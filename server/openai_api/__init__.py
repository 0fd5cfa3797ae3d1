"""Implement the OpenAI wire format: routes, schemas and server-sent events."""
