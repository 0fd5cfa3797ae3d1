"""Write a segment from rows of others and of the memtable, block by block, in constant memory."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats, Metric
from retrieval.index.backends.base import Backend, SegmentVectors, Sink
from retrieval.index.base import Columns, concatenated
from retrieval.index.segments.manifest import SegmentEntry
from retrieval.index.segments.segment import INDEX_FILE, open_segment, segment_folder
from retrieval.index.spec import PROBE_SHARES, RECALL_GOAL, SAFE_KIND, KindChoice
from retrieval.storage.files import FOLDER_MODE, Disk, FileDigest, make_folder, sync

_BLOCK: Final = 8_192


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
