"""Generate with vLLM replicas in other processes or on other machines, over their token-in, token-out route."""
