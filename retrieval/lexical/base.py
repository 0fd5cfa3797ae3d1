"""The seam of lexical indices: words of passages, ranked by BM25."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from retrieval.index.base import RowFilter
from retrieval.passages import Hit, Passage


class LexicalIndex(Protocol):
    """One collection of passages, safe from many threads.

    ``add`` and ``delete`` are seen and durable after ``commit``.
    """

    def add(self, passages: Iterable[Passage]) -> int:
        """How many were added; a passage whose id is there already takes the old one's place."""
        ...

    def delete(self, ids: Sequence[int]) -> None: ...

    def commit(self) -> None: ...

    def search(self, query: str, k: int, where: RowFilter | None = None) -> list[Hit]:
        """Best first, at most k; any words, however odd their punctuation, are words and never query syntax."""
        ...

    def __len__(self) -> int: ...

    def close(self) -> None: ...
