"""Call E-utilities and BLAST: define the calls, send them, parse and condense their replies."""
