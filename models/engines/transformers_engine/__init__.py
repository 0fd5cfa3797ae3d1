"""Generate with a transformers model under our own batched decode loop."""
