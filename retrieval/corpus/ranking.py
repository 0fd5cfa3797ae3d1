"""Rankings of the passages of one namespace, by one retriever, and how rankings of several are joined. Pure."""

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
    """Ranks the passages of an index of keywords by how often a query's keywords stand in them (PES2)."""

    def __call__(self, index: Any, query: str, k: int, where: RowFilter | None, /) -> list[Hit]:
        """``index`` is what ``Backends.keywords`` opened. Best first, at most k; only passages with a keyword."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """``ranks``: place, from 1, in each ranker's own ranking of the passage's namespace; those that did not find it are
    left out. ``hit.score`` is that of the last step: fusion, or the cross-encoder."""

    passage: Passage
    document: Document
    hit: Hit
    namespace: str
    ranks: Mapping[str, int] = field(default_factory=dict)


def rankers_of(retriever: Retriever) -> tuple[Ranker, ...]:
    """NamespaceInvalid where there is none of this name."""
    found = RANKERS.get(retriever)
    if found is None:
        raise NamespaceInvalid(f"retriever must be one of {', '.join(RANKERS)}", param="retriever")
    return found


def fused(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Several rankings as one, by reciprocal ranks; a single one stays as it is, with its scores."""
    if len(rankings) == 1:
        return list(rankings[0])
    return reciprocal_rank_fusion(rankings)


def interleaved(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """The first of each, then the second of each: for scores that do not compare, as those of BM25 in two indices.

    The score is 1/(60 + rank), as in the fusion by reciprocal ranks.
    """
    placed = [(place, order, hit) for order, ranking in enumerate(rankings) for place, hit in enumerate(ranking, 1)]
    placed.sort(key=lambda entry: entry[:2])
    return [Hit(hit.passage_id, 1.0 / (RRF_K + place)) for place, _, hit in placed]


def by_score(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """For scores of one scale; equal ones in the order of the rankings."""
    return sorted((hit for ranking in rankings for hit in ranking), key=lambda hit: -hit.score)
