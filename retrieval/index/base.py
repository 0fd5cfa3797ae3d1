"""The seam of vector indices: what every back end promises. One contract test holds all of them to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats, Metric

Ids = NDArray[np.int64]
NO_ID = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Vectors with what filters need; all of one length n.

    ``ids`` int64 [n], positive, each once; ``vectors`` float32 [n, dim]; ``dates`` int32 [n] yyyymmdd, 0 unknown;
    ``types`` int64 [n] bits of ``retrieval.passages.PUBLICATION_TYPES``; ``namespaces`` int32 [n] numbers of the
    passage store. Missing columns are zeros.
    """

    ids: Ids
    vectors: Floats
    dates: NDArray[np.int32] | None = None
    types: NDArray[np.int64] | None = None
    namespaces: NDArray[np.int32] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Which rows may be hits; every condition must hold, and no back end may ever return another row.

    ``date_from``, ``date_to`` yyyymmdd, inclusive; a row without date fails where either is set. ``types``: one of
    these bits must be set, 0 for any. ``without_types``: none of these may be. ``ids``: only these, ascending.
    """

    namespaces: frozenset[int] | None = None
    date_from: int = 0
    date_to: int = 0
    types: int = 0
    without_types: int = 0
    ids: Ids | None = None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """``ids`` int64 [n, k], ``scores`` float32 [n, k], best first. Where fewer than k rows pass, the places that are
    left hold ``NO_ID`` and minus infinity. Scores are higher for better: inner products, or negated squared distances.
    """

    ids: Ids
    scores: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStats:
    """``rows`` are alive, ``deleted`` wait for compaction; bytes in memory (mapped files not counted) and on disk."""

    rows: int
    deleted: int
    segments: int
    generation: int
    bytes_memory: int
    bytes_disk: int
    detail: dict[str, Any] = field(default_factory=dict)


class VectorIndex(Protocol):
    """One collection of vectors of one encoder. Safe from many threads; readers see whole changes or none.

    ``add`` and ``delete`` are seen by searches at once and are durable after ``commit``.
    """

    @property
    def dim(self) -> int: ...

    @property
    def metric(self) -> Metric: ...

    def add(self, rows: Rows) -> None:
        """Rows whose id is there already take the old one's place.

        Raises:
            IndexInputInvalid: shapes, types, ids or values (NaN) that cannot be.
        """
        ...

    def delete(self, ids: Ids) -> int:
        """How many of them were there."""
        ...

    def search(self, queries: Floats, k: int, where: RowFilter | None = None) -> Neighbours:
        """The nearest rows of each of ``queries`` float32 [n, dim]."""
        ...

    def commit(self) -> int:
        """Make everything durable; the number of the generation that now is. A crash before leaves the old one."""
        ...

    def stats(self) -> IndexStats: ...

    def close(self) -> None: ...
