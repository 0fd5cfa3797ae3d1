"""The seam of lexical indices: words of passages, ranked by BM25."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from retrieval.index.base import RowFilter
from retrieval.passages import Hit, Passage


class LexicalIndex(Protocol):
    """One collection of passages, safe from many threads.

    ``add`` and ``delete`` are seen and durable after ``commit``; ``close`` without it, or a crash, leaves what was.
    The first change takes the one right to write, ``commit`` gives it back.
    """

    def add(self, passages: Iterable[Passage], namespace: int = 0) -> int:
        """How many were added; a passage whose id is there already takes the old one's place.

        ``namespace`` is the number by which ``RowFilter.namespaces`` knows them, as passages do not tell it.

        Raises:
            IndexInputInvalid: an id that is not 1 to 2**63 - 1.
            IndexBusy: another process, or another index object, is writing.
        """
        ...

    def delete(self, ids: Sequence[int]) -> None:
        """Ids that are not there are no error."""
        ...

    def commit(self) -> None:
        """
        Raises:
            IndexWriteFailed: a commit is whole or was not made; the same passages can be added again either way.
        """
        ...

    def search(self, query: str, k: int, where: RowFilter | None = None) -> list[Hit]:
        """Best first, at most k, equal scores by id; any text, however odd its punctuation, is words, never syntax."""
        ...

    def __len__(self) -> int: ...

    def close(self) -> None: ...
