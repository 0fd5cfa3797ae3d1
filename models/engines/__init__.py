"""Continue token ids with engines, each of which satisfies the Protocol in ``base``."""
