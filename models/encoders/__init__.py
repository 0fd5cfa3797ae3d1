"""Encoders: texts to vectors, and pairs to scores."""
