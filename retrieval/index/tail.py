"""Hold the mutable rows of an index in memory, searched exactly, until they are sealed into a segment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats, Metric
from retrieval.index import scoring
from retrieval.index.base import NO_ID, Ids, RowFilter
from retrieval.index.columns import Columns, Mask, concatenated, empty_columns


@dataclass(frozen=True, slots=True)
class TailView:
    """Hold a snapshot of the memtable; later changes make a new one."""

    columns: Columns
    vectors: Floats
    alive: Mask

    @property
    def fixed_mean(self) -> Floats | None:
        return None

    @property
    def rows_alive(self) -> int:
        return int(np.count_nonzero(self.alive))

    def raw(self, rows: NDArray[np.int64]) -> Floats:
        found: Floats = self.vectors[rows]
        return found

    def search(self, metric: Metric, queries: Floats, k: int, where: RowFilter | None) -> scoring.Candidates:
        allowed = self.alive if where is None else self.alive & self.columns.passing(where)
        rows = np.flatnonzero(allowed)
        if not len(rows):
            return scoring.nothing(len(queries), 0)
        found, scores = scoring.scanned(metric, queries, self.vectors, rows, k)
        return np.where(found == NO_ID, NO_ID, self.columns.ids[found]), scores


class Tail:
    """Collect new rows in memory, one writer at a time.

    Arrays grow by doubling; a snapshot covers the part that was filled when it was taken.
    """

    def __init__(self, dim: int) -> None:
        self._columns = empty_columns()
        self._buffer = np.empty((0, dim), np.float32)
        self._alive = np.empty(0, np.bool_)
        self._rows: dict[int, int] = {}

    def __len__(self) -> int:
        """Return the number of rows in memory, including dead ones."""
        return len(self._alive)

    @property
    def dead(self) -> int:
        return len(self._alive) - len(self._rows)

    def view(self) -> TailView:
        return TailView(self._columns, self._buffer[: len(self._alive)], self._alive)

    def add(self, columns: Columns, vectors: Floats) -> None:
        start, end = len(self._alive), len(self._alive) + len(columns)
        if end > len(self._buffer):
            grown = np.empty((max(end, 2 * len(self._buffer)), self._buffer.shape[1]), np.float32)
            grown[:start] = self._buffer[:start]
            self._buffer = grown
        self.delete(columns.ids)
        self._buffer[start:end] = vectors
        self._columns = concatenated([self._columns, columns])
        self._alive = np.concatenate([self._alive, np.ones(len(columns), np.bool_)])
        self._rows.update(zip(columns.ids.tolist(), range(start, end), strict=True))

    def delete(self, ids: Ids) -> int:
        rows = [row for one in ids.tolist() if (row := self._rows.pop(one, None)) is not None]
        if rows:
            self._alive = self._alive.copy()
            self._alive[rows] = False
        return len(rows)

    def bytes_memory(self) -> int:
        columns = self._columns
        arrays = (self._buffer, self._alive, columns.ids, columns.dates, columns.types, columns.namespaces)
        return sum(array.nbytes for array in arrays)
