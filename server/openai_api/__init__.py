"""The OpenAI wire format: routes, schemas, server-sent events."""
