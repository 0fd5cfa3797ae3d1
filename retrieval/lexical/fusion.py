"""Fuse several rankings into one, and rerank passages with a cross-encoder; pure: nothing here reads an index."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from models.encoders.base import CrossEncoder, PassageText
from retrieval.lexical.tokens import normalise
from retrieval.passages import Hit, Passage

RRF_K: Final = 60
# MedRAG (Xiong et al. 2024) fuses its retrievers with this constant.
MEDRAG_RRF_K: Final = 100
# Chosen on the half of BioASQ's questions that scripts/evals/retrieval.py keeps for choices.
ORDERED: Final = 50
SEEDS: Final = 2
SEED_WEIGHTS: Final = (0.6, 0.4)
EVEN: Final = 0.5


def reciprocal_rank_fusion(rankings: Sequence[Sequence[Hit]], *, rank_constant: int = RRF_K) -> list[Hit]:
    """Fuse rankings by the sum of 1 / (rank_constant + rank) over those that have the passage.

    Ranks start at 1; rankings are best first. A passage that occurs twice in one ranking counts once, at its better
    rank, and the passages after it move up. Equal sums: the better rank in any ranking first, then the earlier ranking,
    then the smaller id.
    """
    sums: dict[int, float] = {}
    best_ranks: dict[int, tuple[int, int]] = {}
    for number, ranking in enumerate(rankings):
        for rank, passage_id in enumerate(dict.fromkeys(hit.passage_id for hit in ranking), 1):
            sums[passage_id] = sums.get(passage_id, 0.0) + 1 / (rank_constant + rank)
            best_ranks[passage_id] = min(best_ranks.get(passage_id, (rank, number)), (rank, number))
    return _sorted(sums, best_ranks)


def normalised_fusion(rankings: Sequence[Sequence[Hit]], weights: Sequence[float]) -> list[Hit]:
    """Fuse rankings by the weighted sum of scores, each ranking's shifted and scaled to mean 0 and deviation 1.

    Preserves the distances between hits, which ranks lose. The statistics are those of each ranking, so that they need
    no knowledge of the index or the encoder. A passage that a ranking does not have gets that ranking's lowest score.
    Ties as in ``reciprocal_rank_fusion``.
    """
    sums: dict[int, float] = {}
    best_ranks: dict[int, tuple[int, int]] = {}
    parts = [(_normalised(ranking), weight) for ranking, weight in zip(rankings, weights, strict=True)]
    for number, (scores, _) in enumerate(parts):
        for rank, passage_id in enumerate(scores, 1):
            best_ranks[passage_id] = min(best_ranks.get(passage_id, (rank, number)), (rank, number))
    lowest = [(scores, min(scores.values()), weight) for scores, weight in parts if scores]
    for passage_id in best_ranks:
        sums[passage_id] = sum(weight * scores.get(passage_id, least) for scores, least, weight in lowest)
    return _sorted(sums, best_ranks)


def _normalised(ranking: Sequence[Hit]) -> dict[int, float]:
    """Return the normalised score of each passage, in the order of the ranking."""
    once: dict[int, float] = {}
    for hit in ranking:
        once.setdefault(hit.passage_id, hit.score)
    if not once:
        return {}
    mean = sum(once.values()) / len(once)
    deviation = math.sqrt(sum((score - mean) ** 2 for score in once.values()) / len(once))
    return {number: (score - mean) / deviation if deviation > 0 else 0.0 for number, score in once.items()}


# Letters and digits in one word (rs429358, NM_000546.6, GSK2334470, miR-21), or a number of four digits or more.
_IDENTIFIER: Final = re.compile(r"(?=.*\d)(?=.*[^\W\d_])[\w.:*+>-]{3,}|\d{4,}")
_MAX_IDENTIFIERS: Final = 3
_AROUND: Final = "?!.,;()[]\"'"


def is_identifier_like(query: str) -> bool:
    """Return whether a query is nothing but one to three identifiers or numbers."""
    words = [word.strip(_AROUND) for word in query.split(maxsplit=_MAX_IDENTIFIERS)]
    return 0 < len(words) <= _MAX_IDENTIFIERS and all(_IDENTIFIER.fullmatch(word) for word in words)


def share_of_words(query: str) -> float:
    """Return the share of words against vectors: even, but words alone for identifiers.

    The vector of an identifier says little: with even weights, hits for identifiers of BioASQ's documents are ordered
    much worse than by BM25.
    """
    return 1.0 if is_identifier_like(query) else EVEN


def hybrid_fusion(words: Sequence[Hit], dense: Sequence[Hit], share: float = EVEN) -> list[Hit]:
    """Fuse a ranking by words and one by meaning.

    Reciprocal ranks decide which passages are among the best, because a passage deep in both rankings should be among
    the first hundred; normalised scores, which know by how much one is better, order the first ``ORDERED``, words with
    ``share``. On questions of BioASQ either alone finds less.
    """
    if not words or not dense:
        return list(words or dense)
    fused = reciprocal_rank_fusion([words, dense])
    ahead = {hit.passage_id for hit in fused[:ORDERED]}
    ordered = [hit for hit in normalised_fusion([words, dense], (2 * share, 2 - 2 * share)) if hit.passage_id in ahead]
    return ordered + _below(fused[ORDERED:], ordered)


def feedback_seeds(words: Sequence[Hit], dense: Sequence[Hit]) -> list[int]:
    """Return the passages whose vectors are added to the query's before the second dense search.

    Empty unless both rankings have hits, since without one of them nothing confirms the other.
    """
    if not words or not dense:
        return []
    return [hit.passage_id for hit in normalised_fusion([words, dense], SEED_WEIGHTS)[:SEEDS]]


def late_interaction(fused: Sequence[Hit], similarities: Mapping[int, float]) -> list[Hit]:
    """Order the hits that have a similarity (MaxSim) by the sum of both normalised scores, ahead of all others."""
    known = [hit for hit in fused if hit.passage_id in similarities]
    first, second = (
        _normalised(known),
        _normalised([Hit(hit.passage_id, similarities[hit.passage_id]) for hit in known]),
    )
    scored = [Hit(hit.passage_id, first[hit.passage_id] + second[hit.passage_id]) for hit in known]
    scored.sort(key=lambda hit: -hit.score)
    return scored + _below([hit for hit in fused if hit.passage_id not in similarities], scored)


def _below(rest: Sequence[Hit], ordered: Sequence[Hit]) -> list[Hit]:
    """Return ``rest`` with its scores lowered below those of ``ordered``, which are on another scale."""
    if not rest or not ordered:
        return list(rest)
    shift = min(0.0, ordered[-1].score - rest[0].score)
    return [Hit(hit.passage_id, hit.score + shift) for hit in rest]


def rerank(query: str, passages: Sequence[Passage], encoder: CrossEncoder, k: int) -> list[Hit]:
    """Return the k best of ``passages`` by the encoder's logits; equal ones keep their order.

    Of passages with the same text (preprint and article, a file added twice) only the first is scored and returned. NaN
    scores come last, at minus infinity.
    """
    different = distinct_texts(passages)
    if k <= 0 or not different:
        return []
    logits = encoder.score(query, [PassageText(passage.title, passage.text) for passage in different])
    scores = [-math.inf if math.isnan(logit) else float(logit) for logit in logits]
    hits = [Hit(passage.passage_id, score) for passage, score in zip(different, scores, strict=True)]
    return sorted(hits, key=lambda hit: -hit.score)[:k]


def distinct_texts(passages: Iterable[Passage]) -> list[Passage]:
    """Return the passages without those whose text an earlier one has.

    Differences of case, blanks, hyphens and accents do not count.
    """
    out: dict[str, Passage] = {}
    for passage in passages:
        out.setdefault(" ".join(normalise(passage.text).text.split()), passage)
    return list(out.values())


def _sorted(sums: dict[int, float], best_ranks: dict[int, tuple[int, int]]) -> list[Hit]:
    order = sorted(sums, key=lambda passage_id: (-sums[passage_id], best_ranks[passage_id], passage_id))
    return [Hit(passage_id, sums[passage_id]) for passage_id in order]
