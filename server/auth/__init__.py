"""Decide who may ask what: keys, scopes, rate limits, origins."""
