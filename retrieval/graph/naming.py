"""Find the nodes that a question names literally, beyond those that linking found, without I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from retrieval.graph.types import Mention, Node

# Gene symbols that are words of nearly every question: they match only in the graph's own letter case.
_WORDS: Final = (
    "a an and are as at be by can for from has have how if in is it its list long not of on or out rest set that the"
    " this to was what which who with type gene genes disease drug variant"
)
_ENGLISH: Final = frozenset(_WORDS.split())
_APOSTROPHES: Final = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "′": "'", "‐": "-", "‑": "-"})
_GAP: Final = "\n"


class NamesIn:
    """Match node names in the parts of a question that linking left unlinked.

    A span that linking resolved is not matched again: "disease" is not named in "Parkinson's disease".
    """

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
        """Return True if the question has the node's name or a synonym as whole words, ignoring letter case."""
        return node.node_id in self._ids or self._says(node.name) or any(self._says(name) for name in node.synonyms)

    def _says(self, name: str) -> bool:
        if not name.isascii():
            name = name.translate(_APOSTROPHES)
        folded = name.casefold()
        # Most names do not occur, and a substring search is the cheapest test.
        if folded not in self._folded or len(folded) < 2:
            return False
        text, wanted = (self._as_written, name) if folded in _ENGLISH else (self._folded, folded)
        return re.search(rf"(?<![\w-]){re.escape(wanted)}(?![\w-])", text) is not None
