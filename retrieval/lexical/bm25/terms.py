"""Provide what the BM25 back ends share: the terms of a passage, the choice of query terms, input checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from retrieval.index.base import RowFilter
from retrieval.index.errors import IndexInputInvalid
from retrieval.lexical.tokens import index_terms, query_terms
from retrieval.passages import Passage, type_bits

SCHEMA_VERSION: Final = 1
TITLE_WEIGHT: Final = 2
_MAX_ID: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalOptions:
    """Configure a BM25 back end.

    ``max_terms``: only so many terms of a query are searched for, the rarest, since each term costs time and common
    words decide nothing. ``heap_bytes``: memory for passages not yet on the disk; ``threads``: writer threads (tantivy
    only).
    """

    max_terms: int = 24
    heap_bytes: int = 64_000_000
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Row:
    """Hold what is indexed of a passage: its terms, separated by blanks, and the columns for filters."""

    passage_id: int
    terms: str
    date: int
    types: int


def row_of(passage: Passage) -> Row:
    """Return the row of a passage.

    The title's terms count ``TITLE_WEIGHT`` times, as if it stood that often before the text (simple BM25F).

    Raises:
        IndexInputInvalid: the id is not 1 to 2**63 - 1.
    """
    terms = index_terms(passage.title) * TITLE_WEIGHT + index_terms(passage.text)
    return Row(checked_id(passage), " ".join(terms), passage.date, type_bits(passage.types))


def checked_id(passage: Passage) -> int:
    """Return the id of a passage.

    Raises:
        IndexInputInvalid: it is not 1 to 2**63 - 1.
    """
    if not 0 < passage.passage_id <= _MAX_ID:
        raise IndexInputInvalid(f"passage id {passage.passage_id} is not 1 to 2**63 - 1", param="passage_id")
    return passage.passage_id


def rarest_terms(query: str, limit: int, frequency: Callable[[str], int]) -> list[str]:
    """Return at most ``limit`` query terms that occur in passages, the rarest first, each once."""
    known = [(count, place, term) for place, term in enumerate(query_terms(query)) if (count := frequency(term))]
    return [term for _, _, term in sorted(known)[:limit]]


def admits_none(where: RowFilter | None) -> bool:
    """Return whether the filter has an empty set of namespaces or of ids.

    Such a set admits no row, whereas a missing condition admits all.
    """
    if where is None:
        return False
    return (where.namespaces is not None and not where.namespaces) or (where.ids is not None and not len(where.ids))


def bits_of(types: int) -> list[int]:
    """Return the positions of the set bits."""
    return [place for place in range(types.bit_length()) if types >> place & 1]
