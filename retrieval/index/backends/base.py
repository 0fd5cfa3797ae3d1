"""Define the interface of back ends, which search one immutable segment, and compute exact scores with numpy.

Durable files and exactness are the caller's concern: it checks every returned row against the mask and rescores it
unless the searcher is ``exact``. Sums are taken in float64 and rounded to float32 once, or all in one order, so that
equal vectors have equal scores at any position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats, Metric
from retrieval.index.base import NO_ID, Ids, Mask, Neighbours
from retrieval.index.spec import PROBE_SHARE, Kind, KindChoice

HalfFloats = NDArray[np.float16]
Sink = Callable[[bytes], int]
_BLOCK: Final = 8_192
# Candidates beyond k, so that rounding in a first pass does not decide which is the k-th.
EXTRA_CANDIDATES: Final = 16
# From float16, whose exponents begin at 2 to the -14, to float32, whose begin at 2 to the -126 and which has 13 digits
# more.
_MORE_DIGITS: Final = 13
_WITHOUT_FILL: Final = np.int32(-0x7000_0001)
_EXPONENT: Final = np.float32(2.0**112)
_LAST: Final = np.iinfo(np.int64).max  # a row without a hit is behind all others
Candidates = tuple[NDArray[np.int64], Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentVectors:
    """Hold the vectors of one segment and the file of its search structure.

    ``vectors`` float16 [rows, dim], centred, memory-mapped. ``index_file`` holds the structure of ``kind``, None for
    ``flat``, which has none. ``probe_share`` of an IVF type's lists are probed.
    """

    kind: Kind
    metric: Metric
    vectors: HalfFloats
    index_file: Path | None = None
    probe_share: float = PROBE_SHARE


class Searcher(Protocol):
    """Search one segment, whose rows are numbered 0..n-1."""

    @property
    def exact(self) -> bool:
        """Return whether scores are exact (of centred vectors) and need no rescoring."""
        ...

    @property
    def flat(self) -> Searcher | None:
        """Return a searcher that scans all rows and skips those that a mask excludes: itself, another, or None.

        Its scores may be those of quantised rows. It is valid as long as this one.
        """
        ...

    def search(
        self, queries: Floats, k: int, allowed: Mask | None, selectivity: float
    ) -> tuple[NDArray[np.int64], Floats]:
        """Return rows [n, at most k] and their scores.

        Rows are -1 where there is no hit. ``selectivity`` is the share of allowed rows.
        """
        ...

    def bytes_memory(self) -> int:
        """Return the bytes in host or device memory, without memory-mapped files.

        The memory is released when the searcher is dropped.
        """
        ...


class Backend(Protocol):
    """Build and open the search structures of segments.

    Raises:
        IndexFault: from any method, if the library or device is missing.
    """

    @property
    def name(self) -> str: ...

    def kind_for(self, choice: KindChoice, rows: int) -> Kind:
        """Return the index type of a new segment with that number of rows.

        Raises:
            IndexFault: the back end cannot build ``choice``.
        """
        ...

    def build(self, data: SegmentVectors, sink: Sink) -> None:
        """Write the structure of ``data.kind`` (never ``flat``) over its vectors."""
        ...

    def open(self, data: SegmentVectors) -> Searcher: ...

    def describe(self) -> dict[str, Any]: ...


def no_hits(queries: int, k: int) -> Candidates:
    return np.full((queries, k), NO_ID, np.int64), np.full((queries, k), -np.inf, np.float32)


def best(ids: Ids, scores: Floats, k: int) -> Candidates:
    """Return the k best of each row, ties by id.

    Entries without a hit are last, whatever their scores; rows shorter than k are padded.
    """
    ties = ids
    if ids.min(initial=0) == NO_ID:
        missing = ids == NO_ID
        scores, ties = np.where(missing, np.float32(-np.inf), scores), np.where(missing, _LAST, ids)
    elif ids.shape[1] >= k and _is_ordered(scores):
        return ids[:, :k], scores[:, :k].astype(np.float32, copy=False)
    order = np.lexsort((ties, -scores), axis=1)[:, :k]
    lines = np.arange(len(ids))[:, np.newaxis]
    ids, scores = ids[lines, order], scores[lines, order]
    if ids.shape[1] < k:
        more_ids, more_scores = no_hits(len(ids), k - ids.shape[1])
        ids, scores = np.hstack([ids, more_ids]), np.hstack([scores, more_scores])
    return ids, scores.astype(np.float32, copy=False)


def merge_hits(parts: Iterable[Candidates], queries: int, k: int) -> Neighbours:
    """Return the k best of several lists of hits; no id may be in two of them."""
    all_parts = list(parts) or [no_hits(queries, k)]
    if len(all_parts) == 1 and all_parts[0][1].shape[1] >= k and _is_ordered(all_parts[0][1]):
        ids, scores = all_parts[0]
        return Neighbours(ids[:, :k], scores[:, :k])
    ids = np.concatenate([ids for ids, _ in all_parts], axis=1)
    scores = np.concatenate([scores for _, scores in all_parts], axis=1)
    return Neighbours(*best(ids, scores, k))


def _is_ordered(scores: Floats) -> bool:
    """Return whether the scores of every row fall, without ties."""
    return bool((scores[:, 1:] < scores[:, :-1]).all())


def rescore(metric: Metric, queries: Floats, vectors: NDArray[Any], rows: NDArray[np.int64]) -> Floats:
    """Compute the scores of ``rows`` [n, k] from the vectors themselves; those of NO_ID mean nothing."""
    scores = np.empty(rows.shape, np.float64)
    for line, query in enumerate(queries.astype(np.float64)):
        found = as_floats(vectors[rows[line]])
        if metric == "l2":
            apart = found - query
            scores[line] = -np.einsum("ij,ij->i", apart, apart)
        else:
            scores[line] = found @ query
    with np.errstate(over="ignore"):
        return scores.astype(np.float32)


def exact_top_k(metric: Metric, queries: Floats, vectors: NDArray[Any], rows: NDArray[np.int64], k: int) -> Candidates:
    """Return the exact k best of ``rows`` [m], in blocks of constant memory, as rows instead of ids."""
    best_rows, best_scores = no_hits(len(queries), 0)
    for start in range(0, len(rows), _BLOCK):
        some = rows[start : start + _BLOCK]
        # A slice of consecutive rows is a view, not a copy.
        consecutive = int(some[-1]) - int(some[0]) + 1 == len(some)
        block_vectors = vectors[some[0] : some[-1] + 1] if consecutive else vectors[some]
        scores = _products(metric, queries, as_floats(np.asarray(block_vectors)))
        block_rows, block = _cut(np.broadcast_to(some, scores.shape), scores, k + EXTRA_CANDIDATES)
        best_rows, best_scores = _cut(
            np.hstack([best_rows, block_rows]), np.hstack([best_scores, block]), k + EXTRA_CANDIDATES
        )
    return best(best_rows, rescore(metric, queries, vectors, best_rows), k)


def as_floats(vectors: NDArray[Any]) -> Floats:
    """Return finite vectors of 16 or 32 bits as float32.

    Of 16 bits by moving the bits to where float32 has them, which numpy's own conversion takes four times as long for.
    """
    if vectors.dtype != np.float16:
        return vectors.astype(np.float32, copy=False)
    bits = vectors.view(np.int16).astype(np.int32)  # the sign is the first of the new bits, and of those that it fills
    bits <<= _MORE_DIGITS
    bits &= _WITHOUT_FILL
    floats: Floats = bits.view(np.float32)
    floats *= _EXPONENT
    return floats


def _products(metric: Metric, queries: Floats, vectors: Floats) -> Floats:
    scores = queries @ vectors.T
    if metric == "l2":
        scores *= 2
        scores -= np.einsum("ij,ij->i", vectors, vectors)
    return scores


def _cut(rows: NDArray[np.int64], scores: Floats, k: int) -> Candidates:
    if scores.shape[1] <= k:
        return rows, scores
    order = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    return np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1)
