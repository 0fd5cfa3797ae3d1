"""E-utilities and BLAST: which calls exist, how they are sent, and how their replies are read and condensed."""
