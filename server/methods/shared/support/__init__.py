"""Compare the statements of an answer with the texts that it rests on."""
