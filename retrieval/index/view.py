"""Hold what a search sees: segments with their tombstones, and the memtable, at one point in time.

Changes make another snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from models.encoders.base import Floats, Metric
from retrieval.index import scoring
from retrieval.index.base import Ids, Neighbours, RowFilter, Rows
from retrieval.index.columns import Mask, rows_of
from retrieval.index.manifest import SegmentEntry
from retrieval.index.merging import Piece
from retrieval.index.segment import Segment
from retrieval.index.segment_write import Picked, rows_set
from retrieval.index.tail import TailView

_QUERIES_AT_ONCE: Final = 1_024
_ROWS_AT_ONCE: Final = 8_192
_HITS_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSegment:
    """Combine a segment with its tombstones.

    ``alive`` is None if no row is deleted. ``entry`` is that of the last generation that contained it, if any.
    """

    segment: Segment
    entry: SegmentEntry
    alive: Mask | None = None
    dead: int = 0

    @property
    def rows_alive(self) -> int:
        return len(self.segment) - self.dead

    def without(self, ids: Ids) -> LiveSegment:
        rows = rows_of(self.segment.columns.ids, ids)
        if self.alive is not None:
            rows = rows[self.alive[rows]]
        if not len(rows):
            return self
        alive = np.ones(len(self.segment), np.bool_) if self.alive is None else self.alive.copy()
        alive[rows] = False
        return replace(self, alive=alive, dead=self.dead + len(rows))

    def piece(self) -> Piece:
        return Piece((self.entry.number,), self.rows_alive, self.dead)

    def picked(self) -> Picked:
        rows = np.arange(len(self.segment)) if self.alive is None else np.flatnonzero(self.alive)
        return Picked(self.segment, rows.astype(np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Hold the state of an index at one point in time."""

    metric: Metric
    generation: int
    segments: tuple[LiveSegment, ...] = ()
    tail: TailView | None = None

    @property
    def rows(self) -> int:
        return sum(live.rows_alive for live in self.segments) + (self.tail.rows_alive if self.tail else 0)

    def export(self) -> Iterator[Rows]:
        """Yield every live row, in parts."""
        parts = [live.picked() for live in self.segments]
        if self.tail is not None:
            parts.append(Picked(self.tail, rows_set(self.tail.alive)))
        for part in parts:
            for start in range(0, len(part.rows), _ROWS_AT_ONCE):
                rows = part.rows[start : start + _ROWS_AT_ONCE]
                columns = part.source.columns.take(rows)
                yield Rows(
                    ids=np.array(columns.ids),
                    vectors=part.source.raw(rows),
                    dates=np.array(columns.dates),
                    types=np.array(columns.types),
                    namespaces=np.array(columns.namespaces),
                )

    def search(self, queries: Floats, k: int, where: RowFilter | None) -> Neighbours:
        """Return the nearest of all live rows, in constant memory for any number of queries."""
        size = max(1, min(_QUERIES_AT_ONCE, _HITS_AT_ONCE // k))
        starts = range(0, len(queries), size) if len(queries) else range(1)
        found = [self._search(queries[start : start + size], k, where) for start in starts]
        return Neighbours(np.concatenate([part.ids for part in found]), np.concatenate([p.scores for p in found]))

    def _search(self, queries: Floats, k: int, where: RowFilter | None) -> Neighbours:
        if not len(queries):
            return Neighbours(*scoring.nothing(0, k))
        parts = [live.segment.search(queries, k, live.alive, where) for live in self.segments]
        if self.tail is not None:
            parts.append(self.tail.search(self.metric, queries, k, where))
        return scoring.merged(parts, len(queries), k)
