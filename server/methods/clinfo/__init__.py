"""Clinfo.ai: a literature review for one question."""
