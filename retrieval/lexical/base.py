"""Define the interface of lexical indices, which rank passages by BM25."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from retrieval.index.base import RowFilter
from retrieval.passages import Hit, Passage


class LexicalIndex(Protocol):
    """Index the words of one collection of passages.

    Thread-safe. ``add`` and ``delete`` become visible and durable with ``commit``; ``close`` without it, or a crash,
    leaves the last commit. The first change takes the writer lock, ``commit`` releases it.
    """

    def add(self, passages: Iterable[Passage], namespace: int = 0) -> int:
        """Add passages and return how many; a passage replaces an earlier one with its id.

        ``namespace`` is the number that ``RowFilter.namespaces`` matches, since passages do not carry it.

        Raises:
            IndexInputInvalid: an id that is not 1 to 2**63 - 1.
            IndexBusy: another process, or another index object, is writing.
        """
        ...

    def delete(self, ids: Sequence[int]) -> None:
        """Delete passages; unknown ids are ignored."""
        ...

    def commit(self) -> None:
        """Make all changes visible and durable.

        Raises:
            IndexWriteFailed: the commit is whole or was not made; the same passages can be added again either way.
        """
        ...

    def search(self, query: str, k: int, where: RowFilter | None = None) -> list[Hit]:
        """Return at most k hits, best first, equal scores by id.

        Any text is words, never query syntax, whatever its punctuation.
        """
        ...

    def __len__(self) -> int: ...

    def close(self) -> None: ...
