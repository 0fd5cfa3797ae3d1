"""References as CSL-JSON items: the files of reference managers, and a plain line."""
