"""Encode texts with a pooling server: token ids go there (`vllm serve --runner pooling`), vectors come back."""
