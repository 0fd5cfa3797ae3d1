"""Keep an index as immutable segments, with additions, deletions and crash-safe commits."""
