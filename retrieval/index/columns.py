"""Hold the columns that filters read, one array each, and evaluate filters on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval.index.base import Ids, RowFilter

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

    def passing(self, where: RowFilter, *, ascending: bool = False) -> Mask:
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
            wanted = np.asarray(where.ids, np.int64)
            if ascending:
                among = np.zeros(len(self), np.bool_)
                among[rows_of(self.ids, wanted)] = True
                mask &= among
            else:
                mask &= np.isin(self.ids, wanted)
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
    places = np.searchsorted(ascending, ids)
    places[places == len(ascending)] = 0
    found: NDArray[np.int64] = places[ascending[places] == ids].astype(np.int64)
    return found
