"""Keep the hash-chained log of what left this machine."""
