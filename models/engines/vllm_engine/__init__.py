"""Generate with vLLM in this process."""
