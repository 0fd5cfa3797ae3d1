"""References as CSL-JSON items: their text in the styles of journals, and the files of reference managers."""
