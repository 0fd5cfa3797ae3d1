"""Judge whether evidence answers a question and what it says to it."""
