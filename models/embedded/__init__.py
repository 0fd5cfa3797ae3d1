"""Contain the small Llama that ships with Arrowhead: weights, tokenizer, model card."""
