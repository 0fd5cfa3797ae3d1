"""Which nodes a question names word by word, beside those that linking found. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from retrieval.graph.types import Mention, Node

# Symbols of genes that are words of nearly every question: they count only as the graph writes them.
_WORDS: Final = (
    "a an and are as at be by can for from has have how if in is it its list long not of on or out rest set that the"
    " this to was what which who with type gene genes disease drug variant"
)
_ENGLISH: Final = frozenset(_WORDS.split())
_APOSTROPHES: Final = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "′": "'", "‐": "-", "‑": "-"})
_GAP: Final = "\n"


class NamesIn:
    """A stretch that linking took for an entity is not read again: "disease" is not named in "Parkinson's disease"."""

    def __init__(self, question: str, mentions: Sequence[Mention]) -> None:
        self._ids = {mention.node.node_id for mention in mentions}
        rest = list(question)
        for mention in mentions:
            if mention.method in ("exact", "synonym", "spelling"):
                rest[mention.start : mention.end] = _GAP * (mention.end - mention.start)
        self.rest = "".join(rest)
        self._as_written = self.rest.translate(_APOSTROPHES)
        self._folded = self._as_written.casefold()

    def has(self, node: Node) -> bool:
        """By its name or a synonym, letter case apart, as whole words."""
        return node.node_id in self._ids or self._says(node.name) or any(self._says(name) for name in node.synonyms)

    def _says(self, name: str) -> bool:
        if not name.isascii():
            name = name.translate(_APOSTROPHES)
        folded = name.casefold()
        # Most names are not there, and looking for the characters alone costs least.
        if folded not in self._folded or len(folded) < 2:
            return False
        text, wanted = (self._as_written, name) if folded in _ENGLISH else (self._folded, folded)
        return re.search(rf"(?<![\w-]){re.escape(wanted)}(?![\w-])", text) is not None
