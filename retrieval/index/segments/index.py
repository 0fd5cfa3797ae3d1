"""Implement the index: immutable segments, one memtable, tombstones, and a manifest per generation.

Searches read the current snapshot without a lock. Writers are serialised; each change builds a new snapshot and
replaces the old one atomically.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats, Metric
from retrieval.errors import INDEX_INPUT_INVALID, INDEX_NOT_WRITTEN, IndexFault
from retrieval.index.backends.base import Backend
from retrieval.index.base import Columns, Ids, IndexStats, Neighbours, RowFilter, Rows
from retrieval.index.segments.manifest import Manifest, OpenOptions
from retrieval.index.segments.search_thread import SearchThread
from retrieval.index.segments.segment import RowSelection, rows_of_mask
from retrieval.index.segments.snapshot import IndexSnapshot, Memtable
from retrieval.index.segments.storage import Committer, Storage, load
from retrieval.storage.files import FileLock

MAX_BATCH: Final = 262_144
MAX_K: Final = 10_000
MAX_QUERIES: Final = 65_536
# Vectors are stored as centred float16: half of its range leaves headroom for the mean.
_MAX_VALUE: Final = 30_000.0


def checked_rows(rows: Any, dim: int) -> tuple[Columns, Floats]:
    """Return validated columns and vectors as contiguous copies.

    Raises:
        IndexFault: ``param`` names the invalid argument.
    """
    ids = checked_ids(rows.ids)
    if len(ids) > MAX_BATCH:
        raise IndexFault(f"{len(ids)} rows in one call; at most {MAX_BATCH}", INDEX_INPUT_INVALID, param="ids")
    if len(ids) and int(ids.min()) < 1:
        raise IndexFault("ids must be positive", INDEX_INPUT_INVALID, param="ids")
    if len(np.unique(ids)) != len(ids):
        raise IndexFault("an id is there twice in one batch", INDEX_INPUT_INVALID, param="ids")
    vectors = checked_vectors(rows.vectors, dim, "vectors")
    if len(vectors) != len(ids):
        raise IndexFault(f"{len(vectors)} vectors for {len(ids)} ids", INDEX_INPUT_INVALID, param="vectors")
    if vectors.size and float(np.abs(vectors).max()) > _MAX_VALUE:
        raise IndexFault(
            f"a value is over {_MAX_VALUE:.0f} and cannot be kept as float16", INDEX_INPUT_INVALID, param="vectors"
        )
    columns = Columns(
        ids=ids,
        dates=_column(rows.dates, np.int32, len(ids), "dates"),
        types=_column(rows.types, np.int64, len(ids), "types"),
        namespaces=_column(rows.namespaces, np.int32, len(ids), "namespaces"),
    )
    return columns, vectors


def checked_ids(ids: Any) -> Ids:
    found = np.asarray(ids)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise IndexFault("ids must be one row of whole numbers", INDEX_INPUT_INVALID, param="ids")
    if found.dtype.kind == "u" and found.size and int(found.max()) > np.iinfo(np.int64).max:
        raise IndexFault("an id is over 63 bits", INDEX_INPUT_INVALID, param="ids")
    return np.array(found, dtype=np.int64)


def checked_vectors(vectors: Any, dim: int, name: str) -> Floats:
    found = np.asarray(vectors)
    if found.ndim != 2 or found.shape[1] != dim:
        raise IndexFault(f"{name} have shape {found.shape}, not [n, {dim}]", INDEX_INPUT_INVALID, param=name)
    if found.dtype.kind != "f":
        raise IndexFault(f"{name} are {found.dtype}, not floats", INDEX_INPUT_INVALID, param=name)
    array = np.array(found, dtype=np.float32, order="C")
    if not np.isfinite(array).all():
        raise IndexFault(f"{name} hold a value that is no finite number", INDEX_INPUT_INVALID, param=name)
    return array


def checked_k(k: int) -> int:
    if not 1 <= k <= MAX_K:
        raise IndexFault(f"k is {k}, not in 1..{MAX_K}", INDEX_INPUT_INVALID, param="k")
    return k


def checked_filter(where: RowFilter | None) -> RowFilter | None:
    """Return the validated filter, None if it excludes nothing."""
    if where is None or (where.ids is None and where == RowFilter()):
        return None
    if where.ids is not None:
        ids = checked_ids(where.ids)
        if len(ids) > 1 and not bool(np.all(np.diff(ids) > 0)):
            raise IndexFault("the ids of a filter must ascend, each once", INDEX_INPUT_INVALID, param="where")
    return where


def _column(values: Any, dtype: type[np.integer[Any]], rows: int, name: str) -> NDArray[Any]:
    if values is None:
        return np.zeros(rows, dtype)
    found = np.asarray(values)
    if found.shape != (rows,) or (found.size and found.dtype.kind not in "iu"):
        raise IndexFault(f"{name} must be {rows} whole numbers", INDEX_INPUT_INVALID, param=name)
    limits = np.iinfo(dtype)
    if found.size and (int(found.min()) < limits.min or int(found.max()) > limits.max):
        raise IndexFault(f"{name} hold a number that is over {dtype.__name__}", INDEX_INPUT_INVALID, param=name)
    return np.array(found, dtype=dtype)


_CLOSED: Final = "the index is closed"


@dataclass(frozen=True, slots=True)
class IndexResources:
    """Hold the location and configuration of an index; ``owner`` is the only thread that may use a device."""

    storage: Storage
    backend: Backend
    options: OpenOptions
    owner: SearchThread | None


class SegmentedIndex:
    """Implement ``VectorIndex`` over a folder; ``create_index`` and ``open_index`` construct it."""

    def __init__(self, opening: IndexResources, manifest: Manifest, known: IndexSnapshot | None = None) -> None:
        """Load the current generation.

        ``manifest.kind`` is the type of new segments, all else is the folder's; ``known`` as for ``load``.
        """
        storage, backend, options, owner = opening.storage, opening.backend, opening.options, opening.owner
        self._storage, self._backend, self._options, self._owner = storage, backend, options, owner
        self._writing = threading.Lock()
        self._writer: FileLock | None = None
        self._closed = False
        self._reading: FileLock | None = None
        self._number = 0
        self._unclean = ""
        try:
            self._writer = storage.writer_lock() if options.write else None
            current, self._reading, self._view = load(storage, backend, options, known)
            self._manifest = replace(current, kind=manifest.kind)
            if self._writer is not None:
                self._unclean = storage.clean(self._manifest, ())
                self._number = storage.last_number()
        except BaseException:
            if owner is not None:
                owner.close()
            self._release()
            raise
        self._tail = Memtable(self._manifest.dim)
        self._changed = False

    @property
    def dim(self) -> int:
        return self._manifest.dim

    @property
    def metric(self) -> Metric:
        return self._manifest.metric

    @property
    def manifest(self) -> Manifest:
        """Return the manifest of the generation on disk."""
        return self._manifest

    @property
    def view(self) -> IndexSnapshot:
        """Return the current snapshot, which keeps its segments open, even after ``close``."""
        return self._view

    def add(self, rows: Rows) -> None:
        """Add rows, see ``VectorIndex``.

        Raises:
            IndexFault: the memtable was full and could not be sealed; no row was added.
        """
        columns, vectors = checked_rows(rows, self.dim)
        if not len(columns):
            return
        with self._as_writer():
            if len(self._tail) >= self._options.tail_rows:
                self._seal()
            segments = tuple(live.without(columns.ids) for live in self._view.segments)
            self._tail.add(columns, vectors)
            self._view = replace(self._view, segments=segments, tail=self._tail.view())
            self._changed = True

    def delete(self, ids: Ids) -> int:
        deleted = np.unique(checked_ids(ids))
        with self._as_writer():
            segments = tuple(live.without(deleted) for live in self._view.segments)
            before = sum(live.dead for live in self._view.segments)
            count = sum(live.dead for live in segments) - before + self._tail.delete(deleted)
            if count:
                self._view = replace(self._view, segments=segments, tail=self._tail.view())
                self._changed = True
            return count

    def search(self, queries: Any, k: int, where: RowFilter | None = None) -> Neighbours:
        checked, k, where = checked_vectors(queries, self.dim, "queries"), checked_k(k), checked_filter(where)
        if self._closed:
            raise IndexFault(_CLOSED)
        if self._owner is not None:
            return self._owner.search(self._search, checked, k, where)
        return self._search(checked, k, where)

    def get(self, ids: Sequence[int]) -> dict[int, Floats]:
        if self._closed:
            raise IndexFault(_CLOSED)
        return self._view.get(np.unique(checked_ids(np.array(ids, np.int64))))

    def commit(self, corpus: str | None = None) -> int:
        """Commit, see ``VectorIndex``, and store ``corpus`` in the manifest.

        Raises:
            IndexFault: nothing is lost; searches continue, and the next commit tries again.
        """
        with self._as_writer():
            if self._changed or corpus not in (None, self._manifest.corpus):
                self._commit(corpus, compact=False)
            return self._manifest.generation

    def compact(self) -> int:
        """Commit with as few segments as possible and no deleted rows, while searches continue."""
        with self._as_writer():
            if self._changed or not self._committer().is_compact(self._view):
                self._commit(None, compact=True)
            return self._manifest.generation

    def reload(self) -> bool:
        """Load the current generation as a reader and return whether it is a new one."""
        with self._writing:
            if self._closed:
                raise IndexFault(_CLOSED)
            if self._writer is not None:
                return False
            manifest, lock, view = load(self._storage, self._backend, self._options, self._view)
            before, self._reading = self._reading, lock
            if before is not None:
                before.close()
            changed = manifest.generation != self._manifest.generation
            self._manifest, self._view = manifest, view
            return changed

    def export(self) -> Iterator[Rows]:
        """Return all live rows at the time of the call, in parts of constant size; vectors up to float16."""
        return self._view.export()

    def warm(self) -> None:
        """Open every segment's searcher, so that errors surface now and the first search is not slow."""
        query = np.zeros((1, self.dim), np.float32)
        if self._view.segments:
            self.search(query, 1)

    def stats(self) -> IndexStats:
        view = self._view
        tail = self._tail
        searchers = sum(live.segment.searcher.bytes_memory() for live in view.segments)
        return IndexStats(
            rows=view.rows,
            deleted=sum(live.dead for live in view.segments) + tail.dead,
            segments=len(view.segments),
            generation=self._manifest.generation,
            bytes_memory=searchers + tail.bytes_memory(),
            bytes_disk=sum(fact.bytes for fact in self._manifest.files().values()),
            detail={
                "tail_rows": len(tail),
                "uncommitted": self._changed,
                "not_cleaned": self._unclean,
                "kinds": {f"{live.entry.number:08d}": live.entry.kind for live in view.segments},
                "recall": self._manifest.recall,
                **self._backend.describe(),
            },
        )

    def close(self) -> None:
        """Close the index and discard uncommitted changes.

        Running searches complete, later ones raise IndexFault.
        """
        with self._writing:
            if self._closed:
                return
            self._closed = True
            if self._owner is not None:
                self._owner.close()
            self._view = IndexSnapshot(metric=self.metric, generation=self._manifest.generation)
            self._tail = Memtable(self.dim)
            self._release()

    def _search(self, queries: Any, k: int, where: RowFilter | None) -> Neighbours:
        return self._view.search(queries, k, where)

    def _seal(self) -> None:
        """Write the memtable as a segment of no generation, which the next commit adopts.

        After a crash the next clean-up removes it.
        """
        tail, segments = self._tail.view(), self._view.segments
        if tail.rows_alive:
            with self._write_faults():
                segments = (*segments, self._committer().seal(RowSelection(tail, rows_of_mask(tail.alive))))
        self._tail = Memtable(self.dim)
        self._view = replace(self._view, segments=segments, tail=self._tail.view())

    def _commit(self, corpus: str | None, *, compact: bool) -> None:
        corpus = self._manifest.corpus if corpus is None else corpus
        with self._write_faults():
            view, manifest, lock = self._committer().commit(self._view, corpus, compact=compact)
        before, self._reading = self._reading, lock
        if before is not None:
            before.close()
        self._tail = Memtable(self.dim)
        self._manifest, self._view, self._changed = manifest, view, False
        self._unclean = self._storage.clean(manifest, ())

    def _committer(self) -> Committer:
        return Committer(
            storage=self._storage,
            backend=self._backend,
            options=self._options,
            manifest=self._manifest,
            number=self._next_number,
        )

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    @contextmanager
    def _as_writer(self) -> Iterator[None]:
        with self._writing:
            if self._closed:
                raise IndexFault(_CLOSED)
            if self._writer is None:
                raise IndexFault("the index was opened for reading")
            yield

    @contextmanager
    def _write_faults(self) -> Iterator[None]:
        try:
            yield
        except (OSError, IndexFault) as fault:
            drafts = [live.entry.number for live in self._view.segments]
            self._unclean = self._storage.clean(self._manifest, drafts)
            if isinstance(fault, IndexFault):
                raise
            raise IndexFault(f"{self._storage.folder} could not be written: {fault}", INDEX_NOT_WRITTEN) from fault

    def _release(self) -> None:
        for lock in (self._reading, self._writer):
            if lock is not None:
                lock.close()
