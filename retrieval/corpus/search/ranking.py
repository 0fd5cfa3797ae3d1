"""Rank the passages of one namespace by one retriever, and merge several rankings; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from retrieval.corpus.errors import NamespaceInvalid
from retrieval.index.base import RowFilter
from retrieval.lexical.fusion import RRF_K, reciprocal_rank_fusion
from retrieval.passages import Document, Hit, Passage

Retriever = Literal["dense", "bm25", "pes2", "hybrid"]
Ranker = Literal["dense", "bm25", "pes2"]
RANKERS: Final[Mapping[Retriever, tuple[Ranker, ...]]] = {
    "dense": ("dense",),
    "bm25": ("bm25",),
    "pes2": ("pes2",),
    "hybrid": ("bm25", "dense"),
}
MAX_K: Final = 1000


class KeywordSearch(Protocol):
    """Rank the passages of a keyword index by how often a query's keywords occur in them (PES2)."""

    def __call__(self, index: Any, query: str, k: int, where: RowFilter | None, /) -> list[Hit]:
        """Return at most k hits, best first, only of passages with a keyword.

        ``index`` is what ``Backends.keywords`` opened.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPassage:
    """Hold one passage that a search found.

    ``ranks``: rank, from 1, in each ranker's own ranking of the passage's namespace; rankers that did not find it are
    absent. ``hit.score`` is that of the last step: fusion, or the cross-encoder.
    """

    passage: Passage
    document: Document
    hit: Hit
    namespace: str
    ranks: Mapping[str, int] = field(default_factory=dict)


def rankers_of(retriever: Retriever) -> tuple[Ranker, ...]:
    """Return the rankers that a retriever combines.

    Raises:
        NamespaceInvalid: no retriever has this name.
    """
    found = RANKERS.get(retriever)
    if found is None:
        raise NamespaceInvalid(f"retriever must be one of {', '.join(RANKERS)}", param="retriever")
    return found


def fused(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Fuse several rankings by reciprocal rank; return a single one unchanged, with its scores."""
    if len(rankings) == 1:
        return list(rankings[0])
    return reciprocal_rank_fusion(rankings)


def interleaved(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Interleave rankings: the first hit of each, then the second of each.

    For scores that are not comparable, such as those of BM25 in two indices. The score is 1/(60 + rank), as in
    reciprocal rank fusion.
    """
    placed = [(rank, order, hit) for order, ranking in enumerate(rankings) for rank, hit in enumerate(ranking, 1)]
    placed.sort(key=lambda entry: entry[:2])
    return [Hit(hit.passage_id, 1.0 / (RRF_K + rank)) for rank, _, hit in placed]


def by_score(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Merge rankings with scores on one scale; equal scores keep the order of the rankings."""
    return sorted((hit for ranking in rankings for hit in ranking), key=lambda hit: -hit.score)
