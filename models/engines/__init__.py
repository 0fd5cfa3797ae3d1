"""Engines turn token ids into more token ids. Every engine satisfies the Protocol in ``base``."""
