"""Write and search immutable, memory-mapped segments: columns, float16 vectors and, if approximate, a search structure.

Rows are sorted by id, so an id is found by binary search and ties of scores are ties of rows. Vectors are centred
before they are rounded to float16: the mean is stored in ``mean.npy``, and scores are corrected for it. A segment is
written from rows of others and of the memtable, block by block, in constant memory.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats, Metric
from retrieval.errors import IndexDamaged
from retrieval.index.backends.base import (
    EXTRA_CANDIDATES,
    Backend,
    Candidates,
    HalfFloats,
    Searcher,
    SegmentVectors,
    Sink,
    as_floats,
    best,
    exact_top_k,
    no_hits,
    rescore,
)
from retrieval.index.base import NO_ID, Columns, Mask, RowFilter, concatenated
from retrieval.index.segments.manifest import SegmentEntry
from retrieval.index.spec import PROBE_SHARES, RECALL_GOAL, SAFE_KIND, FilteredSearch, Kind, KindChoice, filtered_search
from retrieval.storage.files import FOLDER_MODE, Disk, FileDigest, make_folder, sync

INDEX_FILE: Final = "index.faiss"
# Number of candidates to rescore per type, as a factor of k.
_SAMPLE: Final = 128
_SAMPLE_K: Final = 10
_OVER_FETCH: Final[dict[Kind, int]] = {"flat": 1, "sq8": 2, "ivf-sq8": 2, "ivf-pq": 16, "hnsw": 1, "ivf-rabitq": 2}
_MOST_CANDIDATES: Final = 20_000
_BLOCK: Final = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Hold an opened segment.

    ``searcher`` opens at the first search of a segment that this process has written.
    """

    entry: SegmentEntry
    columns: Columns
    vectors: HalfFloats
    mean: Floats
    exact_mean: NDArray[np.float64]
    metric: Metric
    searcher: LazySearcher
    filtered: FilteredSearch | None

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def fixed_mean(self) -> Floats | None:
        return self.mean

    def raw(self, rows: NDArray[np.int64]) -> Floats:
        """Return vectors as they were added, up to float16 rounding."""
        found: Floats = as_floats(np.asarray(self.vectors[rows])) + self.mean
        return found

    def search(self, queries: Floats, k: int, alive: Mask | None, where: RowFilter | None) -> Candidates:
        """Return ids [n, k or a few more] and exact scores of rows that are live and pass the filter."""
        allowed = self._allowed(alive, where)
        survivors = len(self) if allowed is None else int(np.count_nonzero(allowed))
        if not survivors:
            return no_hits(len(queries), 0)
        shift = (queries.astype(np.float64) @ self.exact_mean)[:, None]
        if self.metric == "l2":
            queries, shift = queries - self.mean, np.zeros_like(shift)
        searcher = self.searcher.get()
        if allowed is None and searcher.exact:  # every row is a hit, and ties are the caller's
            rows, scores = searcher.search(queries, min(survivors, k + EXTRA_CANDIDATES), None, 1.0)
            return self.columns.ids[rows], (scores + shift).astype(np.float32)
        way = "structure" if where is None else self._way(searcher, survivors, len(queries))
        if way == "gather":
            rows, scores = self._scan(queries, k, allowed)
        else:
            searcher = (searcher.flat or searcher) if way == "scan" else searcher
            rows, scores = self._find(searcher, queries, k, allowed)
        ids = np.where(rows == NO_ID, NO_ID, self.columns.ids[rows])
        return ids, (scores + shift).astype(np.float32)

    def recall(self) -> float:
        """Return the share of the 10 nearest other rows that a search finds, with a fixed sample of rows as queries."""
        size = min(_SAMPLE, len(self))
        rows = np.sort(np.random.default_rng(0).choice(len(self), size, replace=False))
        queries = self.raw(rows)
        k = min(_SAMPLE_K + 1, len(self))
        found, _ = self.search(queries, k, None, None)
        shifted = queries - self.mean if self.metric == "l2" else queries
        exact = self.columns.ids[self._scan(shifted, k, None)[0]]
        shares = []
        for own, truth, hits in zip(self.columns.ids[rows], exact, found, strict=True):
            nearest = [number for number in truth.tolist() if number != own][: k - 1]
            shares.append(len(set(nearest) & set(hits[:k].tolist())) / max(1, len(nearest)))
        return float(np.mean(shares)) if shares else 1.0

    def _way(self, searcher: Searcher, survivors: int, queries: int) -> FilteredSearch:
        scans = searcher.flat is not None
        if scans and self.entry.kind == "flat":
            return "scan"
        shape = (len(self), len(self.mean))
        return self.filtered or filtered_search(self.entry.kind, shape, survivors, queries, scans=scans)

    def _allowed(self, alive: Mask | None, where: RowFilter | None) -> Mask | None:
        if where is None:
            return alive
        matching_mask = self.columns.matching_mask(where, ascending=True)
        return matching_mask if alive is None else matching_mask & alive

    def _find(self, searcher: Searcher, queries: Floats, k: int, allowed: Mask | None) -> Candidates:
        survivors = len(self) if allowed is None else int(np.count_nonzero(allowed))
        more = min(k * _OVER_FETCH[self.entry.kind], max(k, _MOST_CANDIDATES))
        num_candidates = min(survivors, more + EXTRA_CANDIDATES)
        rows, scores = searcher.search(queries, num_candidates, allowed, survivors / len(self))
        if allowed is not None:
            rows = np.where(allowed[rows], rows, NO_ID)  # a back end may ignore the mask
        if not searcher.exact:
            scores = rescore(self.metric, queries, self.vectors, rows)
        rows, scores = best(rows, scores, k)
        # A structure that probed too few of its parts returns fewer hits than exist; those without one are last.
        short = np.flatnonzero(np.count_nonzero(rows != NO_ID, axis=1) < min(k, survivors))
        if len(short):
            rows[short], scores[short] = self._scan(queries[short], k, allowed)
        return rows, scores

    def _scan(self, queries: Floats, k: int, allowed: Mask | None) -> Candidates:
        rows = np.arange(len(self)) if allowed is None else np.flatnonzero(allowed)
        return exact_top_k(self.metric, queries, self.vectors, rows, k)


class LazySearcher:
    """Open the searcher on first use, as a process that only writes needs no search library in memory."""

    def __init__(self, backend: Backend, data: SegmentVectors) -> None:
        self._backend = backend
        self._data = data
        self._searcher: Searcher | None = None
        self._opening = threading.Lock()

    def get(self) -> Searcher:
        if self._searcher is None:
            with self._opening:
                if self._searcher is None:
                    self._searcher = self._backend.open(self._data)
        return self._searcher

    def bytes_memory(self) -> int:
        return 0 if self._searcher is None else self._searcher.bytes_memory()


def segment_folder(number: int) -> str:
    return f"segments/{number:08d}"


def open_segment(
    folder: Path, entry: SegmentEntry, metric: Metric, backend: Backend, filtered: FilteredSearch | None
) -> Segment:
    """Open a segment whose files have been checked.

    Raises:
        IndexDamaged: the contents of its files do not fit together.
    """
    home = folder / segment_folder(entry.number)
    try:
        columns = Columns(
            ids=_mapped(home / "ids.npy"),
            dates=_mapped(home / "dates.npy"),
            types=_mapped(home / "types.npy"),
            namespaces=_mapped(home / "namespaces.npy"),
        )
        vectors, mean = _mapped(home / "vectors.npy"), np.array(_mapped(home / "mean.npy"))
    except (ValueError, EOFError) as fault:
        raise IndexDamaged(f"{home} holds a file that is no array: {fault}") from fault
    lengths = {len(columns.ids), len(columns.dates), len(columns.types), len(columns.namespaces), len(vectors)}
    if lengths != {entry.rows} or vectors.dtype != np.float16 or vectors.shape[1:] != mean.shape:
        raise IndexDamaged(f"the arrays of {home} are not of one length, {entry.rows}")
    index_file = None if entry.kind == "flat" else home / INDEX_FILE
    data = SegmentVectors(
        kind=entry.kind, metric=metric, vectors=vectors, index_file=index_file, probe_share=entry.probe_share
    )
    return Segment(
        entry=entry,
        columns=columns,
        vectors=vectors,
        mean=mean,
        exact_mean=mean.astype(np.float64),
        metric=metric,
        searcher=LazySearcher(backend, data),
        filtered=filtered,
    )


def _mapped(path: Path) -> NDArray[Any]:
    # As a plain array: numpy makes a new object of the mapped kind at each index and slice.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


class RowSource(Protocol):
    """Provide rows of a new segment."""

    @property
    def columns(self) -> Columns: ...

    @property
    def fixed_mean(self) -> Floats | None:
        """Return the mean by which its vectors are centred already, None if they are not."""
        ...

    def raw(self, rows: NDArray[np.int64]) -> Floats: ...


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Select the live rows of a source, ascending."""

    source: RowSource
    rows: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPlan:
    """Describe the location and type of a segment to write."""

    folder: Path
    number: int
    kind: KindChoice
    metric: Metric
    dim: int


class _Order:
    """Order the rows of several sources by id."""

    def __init__(self, parts: Sequence[RowSelection]) -> None:
        self._parts = parts
        columns = concatenated([part.source.columns.take(part.rows) for part in parts])
        order = np.argsort(columns.ids, kind="stable")
        self.columns = columns.take(order)
        sizes = [len(part.rows) for part in parts]
        self._part = np.repeat(np.arange(len(parts)), sizes)[order]
        self._row = np.concatenate([part.rows for part in parts])[order]

    def blocks(self, dim: int) -> Iterator[Floats]:
        for start in range(0, len(self.columns), _BLOCK):
            part, row = self._part[start : start + _BLOCK], self._row[start : start + _BLOCK]
            block = np.empty((len(part), dim), np.float32)
            for index in np.unique(part):
                here = part == index
                block[here] = self._parts[index].source.raw(row[here])
            yield block

    def mean(self, dim: int) -> Floats:
        """Return the mean of the rows, or a single source's own mean, which keeps its vectors bit-identical."""
        fixed = self._parts[0].source.fixed_mean if len(self._parts) == 1 else None
        if fixed is not None:
            return fixed
        total = np.zeros(dim, np.float64)
        for block in self.blocks(dim):
            total += block.sum(axis=0, dtype=np.float64)
        found: Floats = (total / max(1, len(self.columns))).astype(np.float32)
        return found


def write_segment(plan: SegmentPlan, parts: Sequence[RowSelection], backend: Backend, disk: Disk) -> SegmentEntry:
    """Write a new folder and sync every file to disk.

    On OSError a partial folder remains, which the next clean-up removes.
    """
    order = _Order(parts)
    name = segment_folder(plan.number)
    home = plan.folder / name
    make_folder(home.parent)
    home.mkdir(mode=FOLDER_MODE)
    mean = order.mean(plan.dim)
    files: dict[str, FileDigest] = {}
    arrays: dict[str, NDArray[Any]] = {
        "ids": order.columns.ids,
        "dates": order.columns.dates,
        "types": order.columns.types,
        "namespaces": order.columns.namespaces,
        "mean": mean,
    }
    for column, values in arrays.items():
        files[f"{name}/{column}.npy"] = write_array(disk, home / f"{column}.npy", values)
    files[f"{name}/vectors.npy"] = _write_vectors(disk, home / "vectors.npy", order, mean)
    rows = len(order.columns)
    entry = SegmentEntry(number=plan.number, kind=backend.kind_for(plan.kind, rows), rows=rows, files=files)
    if entry.kind != "flat":
        entry = _with_structure(plan, entry, backend, disk)
    sync(home)
    sync(home.parent)
    sync(plan.folder)
    return entry


def _with_structure(plan: SegmentPlan, entry: SegmentEntry, backend: Backend, disk: Disk) -> SegmentEntry:
    """Build the search structure and measure its recall; of the type "auto", make it as safe as the vectors need."""
    built = _tuned(plan, _built(plan, entry, backend, disk), backend)
    if plan.kind != "auto" or (built.recall or 0.0) >= RECALL_GOAL or built.kind == SAFE_KIND:
        return built
    disk.remove([plan.folder / segment_folder(plan.number) / INDEX_FILE])
    safe = replace(entry, kind=SAFE_KIND)
    return _tuned(plan, _built(plan, safe, backend, disk), backend)


def _built(plan: SegmentPlan, entry: SegmentEntry, backend: Backend, disk: Disk) -> SegmentEntry:
    name = segment_folder(entry.number)
    home = plan.folder / name
    vectors = np.load(home / "vectors.npy", mmap_mode="r", allow_pickle=False)
    data = SegmentVectors(kind=entry.kind, metric=plan.metric, vectors=vectors)
    digest = disk.write(home / INDEX_FILE, lambda sink: backend.build(data, sink))
    return replace(entry, files={**entry.files, f"{name}/{INDEX_FILE}": digest})


def _tuned(plan: SegmentPlan, entry: SegmentEntry, backend: Backend) -> SegmentEntry:
    """Return the entry with the smallest share of probes that reaches the goal, or the largest, and its recall."""
    shares = PROBE_SHARES if entry.kind.startswith("ivf") else PROBE_SHARES[:1]
    for share in shares:
        entry = replace(entry, probe_share=share)
        recall = open_segment(plan.folder, entry, plan.metric, backend, None).recall()
        entry = replace(entry, recall=round(recall, 4))
        if recall >= RECALL_GOAL:
            break
    return entry


def write_array(disk: Disk, path: Path, values: NDArray[Any]) -> FileDigest:
    def fill(put: Sink) -> None:
        put(_header(values.dtype, values.shape))
        for start in range(0, len(values), 1 << 17):
            put(np.ascontiguousarray(values[start : start + (1 << 17)]).tobytes())

    return disk.write(path, fill)


def _write_vectors(disk: Disk, path: Path, order: _Order, mean: Floats) -> FileDigest:
    def fill(put: Sink) -> None:
        put(_header(np.dtype("<f2"), (len(order.columns), len(mean))))
        for block in order.blocks(len(mean)):
            put((block - mean).astype("<f2").tobytes())

    return disk.write(path, fill)


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    described = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, described)  # type: ignore[no-untyped-call]
    return stream.getvalue()


def rows_of_mask(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.flatnonzero(mask).astype(np.int64)
