"""Recognize the calls that may leave under a profile without free text; whatever is not recognized stays."""
