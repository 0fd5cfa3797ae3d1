"""Vector indices: rows of one encoder, searched exactly or approximately, durable and filtered."""
