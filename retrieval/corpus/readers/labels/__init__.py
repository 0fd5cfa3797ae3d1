"""Read the labels of drugs."""
