"""Open the current generation of a folder: check every file, then memory-map it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from retrieval.durable import FileLock
from retrieval.index.backend import Backend
from retrieval.index.columns import Mask
from retrieval.index.errors import IndexDamaged
from retrieval.index.manifest import Manifest, SegmentEntry, check_files
from retrieval.index.options import OpenOptions
from retrieval.index.segment import opened, segment_folder
from retrieval.index.storage import Storage
from retrieval.index.view import LiveSegment, View


@dataclass(frozen=True, slots=True)
class _Loader:
    storage: Storage
    backend: Backend
    options: OpenOptions
    known: Mapping[int, LiveSegment]

    def view(self, manifest: Manifest) -> View:
        segments = tuple(self._live(manifest, entry) for entry in manifest.segments)
        return View(metric=manifest.metric, generation=manifest.generation, segments=segments)

    def _live(self, manifest: Manifest, entry: SegmentEntry) -> LiveSegment:
        folder, before = self.storage.folder, self.known.get(entry.number)
        name = f"{segment_folder(entry.number)}/vectors.npy"
        if before is not None and before.entry.files[name] == entry.files.get(name):
            segment = before.segment
            check_files(
                folder, {entry.dead_file: entry.files[entry.dead_file]} if entry.dead else {}, self.options.verify
            )
        else:
            check_files(folder, entry.files, self.options.verify)
            segment = opened(folder, entry, manifest.metric, self.backend, self.options.gather_rows)
        return LiveSegment(segment=segment, entry=entry, alive=self._alive(entry), dead=entry.dead)

    def _alive(self, entry: SegmentEntry) -> Mask | None:
        if not entry.dead:
            return None
        path = self.storage.folder / entry.dead_file
        rows = np.load(path, allow_pickle=False)
        if len(rows) != entry.dead or not 0 <= int(rows.min()) <= int(rows.max()) < entry.rows:
            raise IndexDamaged(f"{path} does not hold {entry.dead} rows of segment {entry.number}")
        alive = np.ones(entry.rows, np.bool_)
        alive[rows] = False
        return alive


def load(
    storage: Storage, backend: Backend, options: OpenOptions, known: View | None = None
) -> tuple[Manifest, FileLock, View]:
    """Open the current generation and return its manifest, lock and snapshot.

    ``known`` is an earlier snapshot of the folder: its segments are neither checked nor opened again.

    Raises:
        IndexDamaged: a file is missing, truncated or (with ``options.verify`` "full") changed.
    """
    manifest, lock = storage.current()
    there = {live.entry.number: live for live in known.segments} if known else {}
    try:
        return manifest, lock, _Loader(storage, backend, options, there).view(manifest)
    except FileNotFoundError as fault:
        lock.close()
        raise IndexDamaged(f"{fault.filename} is missing") from fault
    except BaseException:
        lock.close()
        raise
