"""Define the interface of vector indices; one contract test covers every implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats, Metric

Ids = NDArray[np.int64]
NO_ID = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Hold vectors and the columns that filters read, all of one length n.

    ``ids`` int64 [n], positive and unique; ``vectors`` float32 [n, dim]; ``dates`` int32 [n] yyyymmdd, 0 unknown;
    ``types`` int64 [n] bits of ``retrieval.passages.PUBLICATION_TYPES``; ``namespaces`` int32 [n] namespace numbers
    of the passage store. Missing columns are zeros.
    """

    ids: Ids
    vectors: Floats
    dates: NDArray[np.int32] | None = None
    types: NDArray[np.int64] | None = None
    namespaces: NDArray[np.int32] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Select the rows that may be hits; every condition must hold, and no back end may return another row.

    ``date_from``, ``date_to`` yyyymmdd, inclusive; a row without date fails if either is set. ``types``: one of these
    bits must be set, 0 for any. ``without_types``: none of these may be. ``ids``: only these, ascending.
    """

    namespaces: frozenset[int] | None = None
    date_from: int = 0
    date_to: int = 0
    types: int = 0
    without_types: int = 0
    ids: Ids | None = None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Hold the hits of each query, best first.

    ``ids`` int64 [n, k], ``scores`` float32 [n, k]. Where fewer than k rows pass, the remaining entries hold ``NO_ID``
    and minus infinity. Higher scores are better: inner products, or negated squared distances.
    """

    ids: Ids
    scores: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStats:
    """Report the size of an index.

    ``rows`` are live, ``deleted`` await compaction; ``bytes_memory`` excludes memory-mapped files.
    """

    rows: int
    deleted: int
    segments: int
    generation: int
    bytes_memory: int
    bytes_disk: int
    detail: dict[str, Any] = field(default_factory=dict)


class VectorIndex(Protocol):
    """Store and search the vectors of one encoder.

    Thread-safe; readers see whole changes or none. ``add`` and ``delete`` are visible to searches at once and durable
    after ``commit``.
    """

    @property
    def dim(self) -> int: ...

    @property
    def metric(self) -> Metric: ...

    def add(self, rows: Rows) -> None:
        """Add rows, replacing existing rows with the same id.

        Raises:
            IndexFault: invalid shapes, types, ids or values (NaN).
        """
        ...

    def delete(self, ids: Ids) -> int:
        """Delete rows by id and return how many of them existed."""
        ...

    def search(self, queries: Floats, k: int, where: RowFilter | None = None) -> Neighbours:
        """Return the nearest rows of each of ``queries`` float32 [n, dim]."""
        ...

    def get(self, ids: Sequence[int]) -> dict[int, Floats]:
        """Return the vectors of those rows that exist, as they were added up to rounding."""
        ...

    def commit(self) -> int:
        """Make all changes durable and return the number of the resulting generation.

        A crash before that leaves the previous generation.
        """
        ...

    def stats(self) -> IndexStats: ...

    def close(self) -> None: ...


Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Hold filter columns of one length; row i of each belongs to ``ids[i]``.

    Arrays may be memory-mapped.
    """

    ids: Ids
    dates: NDArray[np.int32]
    types: NDArray[np.int64]
    namespaces: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: NDArray[np.int64] | slice) -> Columns:
        return Columns(
            ids=self.ids[rows], dates=self.dates[rows], types=self.types[rows], namespaces=self.namespaces[rows]
        )

    def matching_mask(self, where: RowFilter, *, ascending: bool = False) -> Mask:
        """Return the mask of rows that pass the filter.

        With ``ascending``, the ids are sorted and looked up by binary search.
        """
        mask = np.ones(len(self), np.bool_)
        if where.namespaces is not None:
            mask &= np.isin(self.namespaces, np.array(sorted(where.namespaces), np.int64))
        if where.date_from or where.date_to:
            mask &= self.dates > 0
            mask &= self.dates >= where.date_from
        if where.date_to:
            mask &= self.dates <= where.date_to
        if where.types:
            mask &= (self.types & np.int64(where.types)) != 0
        if where.without_types:
            mask &= (self.types & np.int64(where.without_types)) == 0
        if where.ids is not None:
            ids = np.asarray(where.ids, np.int64)
            if ascending:
                among = np.zeros(len(self), np.bool_)
                among[rows_of(self.ids, ids)] = True
                mask &= among
            else:
                mask &= np.isin(self.ids, ids)
        return mask


def empty_columns() -> Columns:
    return Columns(
        ids=np.empty(0, np.int64),
        dates=np.empty(0, np.int32),
        types=np.empty(0, np.int64),
        namespaces=np.empty(0, np.int32),
    )


def concatenated(parts: Sequence[Columns]) -> Columns:
    parts = parts or (empty_columns(),)
    return Columns(
        ids=np.concatenate([p.ids for p in parts]),
        dates=np.concatenate([p.dates for p in parts]),
        types=np.concatenate([p.types for p in parts]),
        namespaces=np.concatenate([p.namespaces for p in parts]),
    )


def rows_of(ascending: Ids, ids: Ids) -> NDArray[np.int64]:
    """Return the rows of those ``ids`` that occur in a sorted id column."""
    if not len(ascending) or not len(ids):
        return np.empty(0, np.int64)
    positions = np.searchsorted(ascending, ids)
    positions[positions == len(ascending)] = 0
    found: NDArray[np.int64] = positions[ascending[positions] == ids].astype(np.int64)
    return found
