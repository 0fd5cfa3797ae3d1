"""Hold what a search sees: segments with their tombstones, and the memtable, at one point in time.

Changes make another snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats, Metric
from retrieval.index.backends.base import Candidates, exact_top_k, merge_hits, no_hits
from retrieval.index.base import (
    NO_ID,
    Columns,
    Ids,
    Mask,
    Neighbours,
    RowFilter,
    Rows,
    concatenated,
    empty_columns,
    rows_of,
)
from retrieval.index.segments.manifest import SegmentEntry
from retrieval.index.segments.segment import RowSelection, Segment, rows_of_mask

_FACTOR: Final = 8
_SMALLEST: Final = 1_024
# A commit's own merges stay below this fraction (1/n) of the largest segment size; ``compact`` makes larger ones.
_COMMIT_SHARE: Final = 4
_MOST_DEAD: Final = 0.3


@dataclass(frozen=True, slots=True)
class SegmentGroup:
    """Describe one planned segment: numbers of its parts (0 for the memtable), live rows and dead rows."""

    parts: tuple[int, ...]
    alive: int
    dead: int

    @property
    def is_stale(self) -> bool:
        """Return whether enough of its rows are dead to justify a rewrite."""
        return self.dead > _MOST_DEAD * (self.alive + self.dead)

    def joined(self, other: SegmentGroup) -> SegmentGroup:
        return SegmentGroup((*self.parts, *other.parts), self.alive + other.alive, self.dead + other.dead)


def groups_at_commit(
    committed: Sequence[SegmentGroup], fresh: Sequence[SegmentGroup], segment_rows: int
) -> list[SegmentGroup]:
    """Return the segments that a commit leaves.

    ``fresh`` pieces belong to no generation yet: they are packed together, whatever their tiers.
    """
    pieces = [*committed, *packed(fresh, segment_rows)]
    while group := _full_tier(pieces, segment_rows // _COMMIT_SHARE):
        rest = [piece for piece in pieces if piece not in group]
        pieces = [*rest, *packed(group, segment_rows)]
    return pieces


def packed(pieces: Sequence[SegmentGroup], segment_rows: int) -> list[SegmentGroup]:
    """Pack pieces into as few segments as possible, small ones first."""
    groups: list[SegmentGroup] = []
    for piece in sorted(pieces, key=lambda piece: piece.alive):
        if groups and groups[-1].alive + piece.alive <= segment_rows:
            groups[-1] = groups[-1].joined(piece)
        else:
            groups.append(piece)
    return groups


def _full_tier(pieces: Sequence[SegmentGroup], most_rows: int) -> list[SegmentGroup]:
    tiers: dict[int, list[SegmentGroup]] = {}
    for piece in pieces:
        tiers.setdefault(_tier(piece.alive), []).append(piece)
    for tier in sorted(tiers):
        found = tiers[tier]
        if len(found) >= _FACTOR and sum(piece.alive for piece in found) <= most_rows:
            return found
    return []


def _tier(rows: int) -> int:
    tier, bound = 0, _SMALLEST
    while rows >= bound:
        tier, bound = tier + 1, bound * _FACTOR
    return tier


@dataclass(frozen=True, slots=True)
class MemtableSnapshot:
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

    def search(self, metric: Metric, queries: Floats, k: int, where: RowFilter | None) -> Candidates:
        allowed = self.alive if where is None else self.alive & self.columns.matching_mask(where)
        rows = np.flatnonzero(allowed)
        if not len(rows):
            return no_hits(len(queries), 0)
        found, scores = exact_top_k(metric, queries, self.vectors, rows, k)
        return np.where(found == NO_ID, NO_ID, self.columns.ids[found]), scores


class Memtable:
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

    def view(self) -> MemtableSnapshot:
        return MemtableSnapshot(self._columns, self._buffer[: len(self._alive)], self._alive)

    def add(self, columns: Columns, vectors: Floats) -> None:
        start, end = len(self._alive), len(self._alive) + len(columns)
        if end > len(self._buffer):
            buffer = np.empty((max(end, 2 * len(self._buffer)), self._buffer.shape[1]), np.float32)
            buffer[:start] = self._buffer[:start]
            self._buffer = buffer
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

    def piece(self) -> SegmentGroup:
        return SegmentGroup((self.entry.number,), self.rows_alive, self.dead)

    def picked(self) -> RowSelection:
        rows = np.arange(len(self.segment)) if self.alive is None else np.flatnonzero(self.alive)
        return RowSelection(self.segment, rows.astype(np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSnapshot:
    """Hold the state of an index at one point in time."""

    metric: Metric
    generation: int
    segments: tuple[LiveSegment, ...] = ()
    tail: MemtableSnapshot | None = None

    @property
    def rows(self) -> int:
        return sum(live.rows_alive for live in self.segments) + (self.tail.rows_alive if self.tail else 0)

    def export(self) -> Iterator[Rows]:
        """Yield every live row, in parts."""
        parts = [live.picked() for live in self.segments]
        if self.tail is not None:
            parts.append(RowSelection(self.tail, rows_of_mask(self.tail.alive)))
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

    def get(self, ids: Ids) -> dict[int, Floats]:
        """Return the vectors of live rows by their ids, which ascend."""
        found: dict[int, Floats] = {}
        for live in self.segments:
            rows = rows_of(live.segment.columns.ids, ids)
            if live.alive is not None:
                rows = rows[live.alive[rows]]
            found |= dict(zip(live.segment.columns.ids[rows].tolist(), live.segment.raw(rows), strict=True))
        if self.tail is not None:
            rows = np.flatnonzero(np.isin(self.tail.columns.ids, ids) & self.tail.alive)
            found |= dict(zip(self.tail.columns.ids[rows].tolist(), self.tail.raw(rows), strict=True))
        return found

    def search(self, queries: Floats, k: int, where: RowFilter | None) -> Neighbours:
        """Return the nearest of all live rows, in constant memory for any number of queries."""
        size = max(1, min(_QUERIES_AT_ONCE, _HITS_AT_ONCE // k))
        if len(queries) <= size:
            return self._search(queries, k, where)
        starts = range(0, len(queries), size)
        found = [self._search(queries[start : start + size], k, where) for start in starts]
        return Neighbours(np.concatenate([part.ids for part in found]), np.concatenate([p.scores for p in found]))

    def _search(self, queries: Floats, k: int, where: RowFilter | None) -> Neighbours:
        if not len(queries):
            return Neighbours(*no_hits(0, k))
        parts = [live.segment.search(queries, k, live.alive, where) for live in self.segments]
        if self.tail is not None:
            parts.append(self.tail.search(self.metric, queries, k, where))
        return merge_hits(parts, len(queries), k)
