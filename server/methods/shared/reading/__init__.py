"""Read evidence for a question: which sentences answer it, and what they say to it."""
