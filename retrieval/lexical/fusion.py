"""Fuse several rankings into one, and rerank passages with a cross-encoder; pure: nothing here reads an index."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from models.encoders.base import CrossEncoder, PassageText
from retrieval.lexical.tokens import normalise
from retrieval.passages import Hit, Passage

RRF_K: Final = 60
# MedRAG (Xiong et al. 2024) fuses its retrievers with this constant.
MEDRAG_RRF_K: Final = 100


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Hit]], *, rank_constant: int = RRF_K, weights: Sequence[float] | None = None
) -> list[Hit]:
    """Fuse rankings by the sum of weight / (rank_constant + rank) over those that have the passage.

    Ranks start at 1; rankings are best first. A passage that occurs twice in one ranking counts once, at its better
    rank, and the passages after it move up. Equal sums: the better rank in any ranking first, then the earlier ranking,
    then the smaller id.

    Raises:
        ValueError: not one weight for each ranking, a negative or not finite one, or a constant below 0.
    """
    if rank_constant < 0:
        raise ValueError("rank_constant is below 0")
    sums: dict[int, float] = {}
    best_ranks: dict[int, tuple[int, int]] = {}
    for number, (ranking, weight) in enumerate(zip(rankings, _weights(weights, len(rankings)), strict=True)):
        for rank, passage_id in enumerate(dict.fromkeys(hit.passage_id for hit in ranking), 1):
            sums[passage_id] = sums.get(passage_id, 0.0) + weight / (rank_constant + rank)
            best_ranks[passage_id] = min(best_ranks.get(passage_id, (rank, number)), (rank, number))
    return _sorted(sums, best_ranks)


def score_fusion(rankings: Sequence[Sequence[Hit]], *, weights: Sequence[float] | None = None) -> list[Hit]:
    """Fuse rankings by the weighted sum of scores, each ranking's scaled to 0..1 (min-max; all 1 if equal).

    Preserves the distances between hits, which ranks lose; a single outlier compresses the other scores. A passage gets
    nothing from a ranking that does not have it. Ties and errors as in ``reciprocal_rank_fusion``.
    """
    sums: dict[int, float] = {}
    best_ranks: dict[int, tuple[int, int]] = {}
    for number, (ranking, weight) in enumerate(zip(rankings, _weights(weights, len(rankings)), strict=True)):
        once = {hit.passage_id: hit.score for hit in reversed(ranking)}
        low, high = min(once.values(), default=0.0), max(once.values(), default=0.0)
        for rank, passage_id in enumerate(dict.fromkeys(hit.passage_id for hit in ranking), 1):
            share = (once[passage_id] - low) / (high - low) if high > low else 1.0
            sums[passage_id] = sums.get(passage_id, 0.0) + weight * share
            best_ranks[passage_id] = min(best_ranks.get(passage_id, (rank, number)), (rank, number))
    return _sorted(sums, best_ranks)


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


def _weights(weights: Sequence[float] | None, count: int) -> Sequence[float]:
    if weights is None:
        return [1.0] * count
    if len(weights) != count or not all(math.isfinite(weight) and weight >= 0 for weight in weights):
        raise ValueError(f"{count} rankings need as many weights, each 0 or more")
    return weights


def _sorted(sums: dict[int, float], best_ranks: dict[int, tuple[int, int]]) -> list[Hit]:
    order = sorted(sums, key=lambda passage_id: (-sums[passage_id], best_ranks[passage_id], passage_id))
    return [Hit(passage_id, sums[passage_id]) for passage_id in order]
