"""Share what several methods need."""
