"""Serve OpenAI's Responses API without a store."""
