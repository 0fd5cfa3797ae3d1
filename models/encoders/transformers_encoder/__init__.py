"""Encode texts with transformers models, the only encoder code that imports torch."""
