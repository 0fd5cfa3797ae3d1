"""Find names of a graph in a text by their spelling."""
