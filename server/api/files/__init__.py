"""Serve OpenAI's files and vector stores over documents and namespaces."""
