"""Rank the passages of one namespace by one retriever, and merge several rankings; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from retrieval.errors import NamespaceInvalid
from retrieval.lexical.fusion import EVEN, MEDRAG_RRF_K, RRF_K, hybrid_fusion, reciprocal_rank_fusion
from retrieval.passages import Document, Hit, Passage

# A name of ``RANKERS``, "dense:ENCODER", or two or more rankers joined by "+".
Retriever = str
# "bm25", "pes2", "dense" (the vectors of a namespace's first encoder) or "dense:ENCODER".
Ranker = str
DENSE: Final = "dense"
BM25: Final = "bm25"
HYBRID: Final = "hybrid"
RRF_4: Final = "rrf-4"
RANKERS: Final[Mapping[Retriever, tuple[Ranker, ...]]] = {
    DENSE: (DENSE,),
    "bm25": ("bm25",),
    "pes2": ("pes2",),
    HYBRID: ("bm25", DENSE),
    "rrf-2": ("bm25", DENSE),
    # The encoders that the namespaces have are added for each search.
    RRF_4: ("bm25",),
}
# MedRAG's RRF-4 (Xiong et al. 2024) fuses BM25 with these encoders.
PAPER_ENCODERS: Final = ("contriever", "specter", "medcpt")
_SINGLE: Final = (DENSE, "bm25", "pes2")
# Between two rankers; an encoder's id can contain the sign itself.
_JOINT: Final = re.compile(r"\+(?=(?:bm25|pes2|dense)(?:[:+]|$))")
_MAX_LISTED: Final = 10
MAX_K: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPassage:
    """Hold one passage that a search found.

    ``ranks``: rank, from 1, in each ranker's own ranking of the passage's namespace; rankers that did not find it are
    absent. ``hit.score`` is that of the last step: fusion, late interaction, or the cross-encoder.
    """

    passage: Passage
    document: Document
    hit: Hit
    namespace: str
    ranks: Mapping[str, int] = field(default_factory=dict)


def rankers_of(retriever: Retriever, encoders: Sequence[str] = ()) -> tuple[Ranker, ...]:
    """Return the rankers that a retriever combines.

    ``encoders``: the ids of those that all searched namespaces have, which ``rrf-4`` fuses with words.

    Raises:
        NamespaceInvalid: no retriever has this name.
    """
    if retriever == RRF_4:
        return ("bm25", *(f"{DENSE}:{encoder}" for encoder in encoders))
    if retriever in RANKERS:
        return RANKERS[retriever]
    parts = tuple(_JOINT.split(retriever, maxsplit=_MAX_LISTED))
    are_known = all(part in _SINGLE or is_dense_of_encoder(part) for part in parts)
    if not are_known or len(set(parts)) != len(parts) or len(parts) > _MAX_LISTED:
        known = f"one of {', '.join(RANKERS)}, dense:ENCODER, or a list such as bm25+dense+pes2"
        raise NamespaceInvalid(f"retriever must be {known}", param="retriever")
    return parts


def is_dense_of_encoder(ranker: Ranker) -> bool:
    encoder = ranker.removeprefix(f"{DENSE}:")
    return encoder != ranker and bool(encoder) and encoder.isprintable() and encoder == encoder.strip()


def encoder_in(ranker: Ranker) -> str:
    """Return the encoder that a ranker names, "" where it names none."""
    return ranker.removeprefix(f"{DENSE}:") if is_dense_of_encoder(ranker) else ""


def missing_of_paper(encoders: Iterable[str]) -> tuple[str, ...]:
    """Return the encoders of MedRAG's RRF-4 that are not among these, by the names of their fingerprints."""
    known = set(encoders)
    return tuple(name for name in PAPER_ENCODERS if name not in known)


def is_retriever(name: object) -> bool:
    """Return whether ``rankers_of`` knows the name."""
    try:
        return isinstance(name, str) and bool(rankers_of(name))
    except NamespaceInvalid:
        return False


def fused(retriever: Retriever, rankings: Mapping[Ranker, Sequence[Hit]], share: float = EVEN) -> list[Hit]:
    """Fuse the rankings of a retriever; return a single one unchanged, with its scores.

    ``hybrid`` as ``hybrid_fusion`` does with ``share``, others by reciprocal ranks with the constant of MedRAG's
    RRF-2 and RRF-4.
    """
    if len(rankings) == 1:
        return list(*rankings.values())
    if retriever == HYBRID:
        return hybrid_fusion(rankings["bm25"], rankings[DENSE], share)
    return reciprocal_rank_fusion(list(rankings.values()), rank_constant=MEDRAG_RRF_K)


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
