"""Prepare torch and OpenMP for the processor or the card of this machine."""
