"""Weights and tokens: engines, the interception loop, encoders. Knows nothing of HTTP, NCBI or prompts."""
