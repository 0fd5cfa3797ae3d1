"""Represent one training transcript: its parts in order, and the calls the model is taught to write."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.embedded.tokenizer import EUTILS

NOT_FOUND = "not found"
CALL_FAILED = "not found, the call failed"
OUT_OF_SCOPE = "this small model only looks up genes, SNPs, diseases and sequences"
MAX_ASKED = 5  # gene records asked for at once
MAX_ENTRIES = 20  # OMIM entries asked for at once


@dataclass(frozen=True, slots=True)
class Part:
    text: str
    written: bool


class Transcript:
    """Collects the parts of one answer."""

    def __init__(self, question: str) -> None:
        self.parts = [Part(f"Question: {question}\n", False)]

    def call(self, url: str, reply: str) -> None:
        self.parts += [Part(f"[{url}]->", True), Part(f"{reply}\n", False)]

    def answer(self, text: str) -> list[Part]:
        self.parts.append(Part(f"Answer: {text}\n\n", True))
        return self.parts


def most_asked(db: str) -> int:
    return MAX_ENTRIES if db == "omim" else MAX_ASKED


def search_url(db: str, term: str) -> str:
    # Spaces stay as they are: the term is the question's text, token for token.
    query = f"db={db}&retmax={most_asked(db)}&retmode=json&sort=relevance&term={term}"
    return f"{EUTILS}esearch.fcgi?{query}"


def summary_url(db: str, ids: str) -> str:
    return f"{EUTILS}esummary.fcgi?db={db}&retmax={most_asked(db)}&retmode=json&id={ids}"
