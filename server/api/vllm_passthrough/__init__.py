"""Pass requests for the plain model on to vLLM's own OpenAI layer."""
