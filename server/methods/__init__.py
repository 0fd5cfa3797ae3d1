"""The published systems, one readable file each. They yield events and know nothing of HTTP."""
