"""Manage an index's folder: the current generation, the commit that replaces it, and what may be removed.

manifest.json            the current generation; renaming it into place is the commit
manifests/00000003.json  the same bytes; readers hold a shared lock on it, which keeps that generation's files
segments/00000007/       immutable files of one segment, of one or many generations
deleted/…npy             rows of a segment that are deleted, as of one generation
.lock                    locked by the only writer

A commit writes new segments, the tombstones of the others, and the manifest that lists them all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from retrieval.errors import INDEX_BUSY, INDEX_NOT_WRITTEN, IndexDamaged, IndexFault
from retrieval.index.backends.base import Backend
from retrieval.index.base import Mask
from retrieval.index.segments.manifest import Manifest, OpenOptions, SegmentEntry, check_files, manifest_from_bytes
from retrieval.index.segments.segment import (
    RowSelection,
    Segment,
    SegmentPlan,
    open_segment,
    rows_of_mask,
    segment_folder,
    write_array,
    write_segment,
)
from retrieval.index.segments.snapshot import IndexSnapshot, LiveSegment, SegmentGroup, groups_at_commit, packed
from retrieval.storage.files import Disk, FileDigest, FileLock, make_folder, sync

CURRENT: Final = "manifest.json"
_TRIES: Final = 50
_PAUSE_S: Final = 0.02
MEMTABLE: Final = 0


class Storage:
    """Read and publish the generations of one folder; reading needs no writer lock."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder = folder
        self.disk = disk

    def exists(self) -> bool:
        return (self.folder / CURRENT).exists()

    def prepare(self) -> None:
        """Create the empty folder of a new index.

        Raises:
            IndexFault: the folder cannot be created.
        """
        try:
            for name in ("manifests", "segments", "deleted"):
                make_folder(self.folder / name)
            sync(self.folder)
        except OSError as fault:
            raise IndexFault(f"{self.folder} cannot be made: {fault}", INDEX_NOT_WRITTEN) from fault

    def writer_lock(self) -> FileLock:
        try:
            return FileLock(self.folder / ".lock")
        except BlockingIOError as fault:
            raise IndexFault(f"another process writes to {self.folder}", INDEX_BUSY) from fault
        except OSError as fault:
            raise IndexFault(f"{self.folder} cannot be locked: {fault}", INDEX_NOT_WRITTEN) from fault

    def current(self) -> tuple[Manifest, FileLock]:
        """Return the current generation and a lock; none of its files is removed before the lock is closed."""
        for _ in range(_TRIES):
            data = self._read_current()
            manifest = manifest_from_bytes(data, str(self.folder / CURRENT))
            try:
                lock = FileLock(self.manifest_path(manifest.generation), shared=True, create=False)
            except (FileNotFoundError, BlockingIOError):
                time.sleep(_PAUSE_S)  # a commit intervened, or the manifest is being removed
                continue
            except OSError as fault:
                raise IndexDamaged(f"{fault.filename} cannot be read: {fault.strerror}") from fault
            if not lock.is_gone():
                if lock.read() == data:
                    return manifest, lock
                lock.close()
                if self._read_current() == data:
                    raise IndexDamaged(f"{self.manifest_path(manifest.generation)} is not {self.folder / CURRENT}")
            lock.close()
        raise IndexDamaged(f"{self.manifest_path(manifest.generation)} is missing")

    def publish(self, manifest: Manifest) -> FileLock:
        """Commit a manifest whose files are all on disk, and return the writer's lock on the new generation."""
        data = manifest.to_bytes()
        path = self.manifest_path(manifest.generation)
        self.disk.replace(path, data)
        lock = FileLock(path, shared=True, create=False)
        try:
            self.disk.replace(self.folder / CURRENT, data)
        except BaseException:
            lock.close()
            raise
        return lock

    def clean(self, current: Manifest, drafts: Collection[int]) -> str:
        """Remove generations without readers and files that no generation needs; the caller holds the writer lock.

        ``drafts`` are segments of the writer that belong to no generation yet. Returns the error's text, "" for none:
        what cannot be read may be in use, so everything stays, and the next commit tries again.
        """
        try:
            self._clean(current, drafts)
        except (OSError, IndexDamaged) as fault:
            return str(fault)
        return ""

    def _clean(self, current: Manifest, drafts: Collection[int]) -> None:
        needed = set(self._retained_files(current))
        folders = {Path(name).parent.name for name in needed} | {f"{number:08d}" for number in drafts}
        unneeded = [path for path in (self.folder / "segments").iterdir() if path.name not in folders]
        unneeded += [path for path in (self.folder / "deleted").iterdir() if f"deleted/{path.name}" not in needed]
        unneeded += [path for path in self.folder.glob(".*.tmp") if path.is_file()]
        self.disk.remove(unneeded)

    def next_generation(self) -> int:
        """Return a number that no manifest on the disk has, whatever the result of the last commit."""
        return max((int(path.stem) for path in (self.folder / "manifests").glob("*.json")), default=-1) + 1

    def last_number(self) -> int:
        """Return the highest number of a segment's folder."""
        return max((int(path.name) for path in (self.folder / "segments").iterdir() if path.name.isdigit()), default=0)

    def manifest_path(self, generation: int) -> Path:
        return self.folder / "manifests" / f"{generation:08d}.json"

    def _retained_files(self, current: Manifest) -> Iterator[str]:
        """Yield the files of the current generation and of those with readers; remove the other manifests."""
        # After a commit that failed at its last step the disk may be a generation ahead of the process.
        on_disk = manifest_from_bytes(self._read_current(), str(self.folder / CURRENT))
        yield from current.files()
        yield from on_disk.files()
        for path in sorted((self.folder / "manifests").iterdir()):
            if path in (self.manifest_path(current.generation), self.manifest_path(on_disk.generation)):
                continue
            try:
                lock = FileLock(path, create=False)
            except BlockingIOError:
                yield from manifest_from_bytes(path.read_bytes(), str(path)).files()
            except OSError:
                continue
            else:
                self.disk.remove([path])
                lock.close()

    def _read_current(self) -> bytes:
        try:
            return (self.folder / CURRENT).read_bytes()
        except OSError as fault:
            why = "is missing" if isinstance(fault, FileNotFoundError) else f"cannot be read: {fault.strerror}"
            raise IndexDamaged(f"there is no index in {self.folder}: {CURRENT} {why}") from fault


@dataclass(frozen=True, slots=True)
class _Loader:
    storage: Storage
    backend: Backend
    options: OpenOptions
    known: Mapping[int, LiveSegment]

    def view(self, manifest: Manifest) -> IndexSnapshot:
        segments = tuple(self._live(manifest, entry) for entry in manifest.segments)
        return IndexSnapshot(metric=manifest.metric, generation=manifest.generation, segments=segments)

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
            segment = open_segment(folder, entry, manifest.metric, self.backend, self.options.filtered)
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
    storage: Storage, backend: Backend, options: OpenOptions, known: IndexSnapshot | None = None
) -> tuple[Manifest, FileLock, IndexSnapshot]:
    """Open the current generation and return its manifest, lock and snapshot.

    ``known`` is an earlier snapshot of the folder: its segments are neither checked nor opened again.

    Raises:
        IndexDamaged: a file is missing, truncated or (with ``options.verify`` "full") changed.
    """
    manifest, lock = storage.current()
    there = {live.entry.number: live for live in known.segments} if known else {}
    try:
        return manifest, lock, _Loader(storage, backend, options, there).view(manifest)
    except OSError as fault:
        lock.close()
        raise IndexDamaged(f"{fault.filename} is missing or cannot be read: {fault.strerror}") from fault
    except BaseException:
        lock.close()
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """Write commits into one folder, under the writer lock that the caller holds.

    ``number`` returns a segment number that was never used.
    """

    storage: Storage
    backend: Backend
    options: OpenOptions
    manifest: Manifest
    number: Callable[[], int]

    def seal(self, picked: RowSelection) -> LiveSegment:
        """Write these rows as a segment that belongs to no generation yet."""
        return self._live(self._write([picked]))

    def commit(self, view: IndexSnapshot, corpus: str, *, compact: bool) -> tuple[IndexSnapshot, Manifest, FileLock]:
        """Write the next generation to disk and return its snapshot, manifest and lock.

        An OSError or an error of the back end leaves the previous generation current.
        """
        generation = self.storage.next_generation()
        pieces = self._plan(view, compact=compact)
        by_number = {live.entry.number: live for live in view.segments}
        again = {piece.parts for piece in pieces if piece.is_stale or (compact and piece.dead)}
        segments = tuple(self._new_segments(pieces, again, by_number, view))
        live_segments = tuple(self._with_tombstones(live, generation) for live in segments)
        manifest = replace(
            self.manifest, generation=generation, corpus=corpus, segments=tuple(live.entry for live in live_segments)
        )
        lock = self.storage.publish(manifest)
        return IndexSnapshot(metric=view.metric, generation=manifest.generation, segments=live_segments), manifest, lock

    def _plan(self, view: IndexSnapshot, *, compact: bool) -> list[SegmentGroup]:
        known = {entry.number for entry in self.manifest.segments}
        pieces = [live.piece() for live in view.segments]
        committed = [piece for piece in pieces if piece.parts[0] in known]
        fresh = [piece for piece in pieces if piece.parts[0] not in known]
        if view.tail is not None and view.tail.rows_alive:
            fresh.append(SegmentGroup((MEMTABLE,), view.tail.rows_alive, 0))
        most = self.options.segment_rows
        planned = packed([*committed, *fresh], most) if compact else groups_at_commit(committed, fresh, most)
        return [piece for piece in planned if piece.alive]

    def is_compact(self, view: IndexSnapshot) -> bool:
        """Return whether ``commit`` with ``compact`` would change only the generation number."""
        pieces = [live.piece() for live in view.segments]
        tail = view.tail is not None and view.tail.rows_alive
        merged = len(packed(pieces, self.options.segment_rows)) < len(pieces)
        return not tail and not merged and not any(piece.dead for piece in pieces)

    def _new_segments(
        self,
        pieces: list[SegmentGroup],
        again: Collection[tuple[int, ...]],
        by_number: Mapping[int, LiveSegment],
        view: IndexSnapshot,
    ) -> Iterator[LiveSegment]:
        for piece in pieces:
            if len(piece.parts) == 1 and piece.parts[0] != MEMTABLE and piece.parts not in again:
                yield by_number[piece.parts[0]]
                continue
            parts = [by_number[number].picked() for number in piece.parts if number != MEMTABLE]
            if MEMTABLE in piece.parts and view.tail is not None:
                parts.append(RowSelection(view.tail, rows_of_mask(view.tail.alive)))
            yield self._live(self._write(parts))

    def _write(self, parts: list[RowSelection]) -> SegmentEntry:
        plan = SegmentPlan(
            folder=self.storage.folder,
            number=self.number(),
            kind=self.manifest.kind,
            metric=self.manifest.metric,
            dim=self.manifest.dim,
        )
        return write_segment(plan, parts, self.backend, self.storage.disk)

    def _live(self, entry: SegmentEntry) -> LiveSegment:
        segment: Segment = open_segment(
            self.storage.folder, entry, self.manifest.metric, self.backend, self.options.filtered
        )
        return LiveSegment(segment=segment, entry=entry)

    def _with_tombstones(self, live: LiveSegment, generation: int) -> LiveSegment:
        entry = live.entry
        if live.alive is None or live.dead == entry.dead:
            return live
        name = f"deleted/{generation:08d}-{entry.number:08d}.npy"
        path = self.storage.folder / name
        self.storage.disk.remove([path])  # left over from a failed commit
        fact = write_array(self.storage.disk, path, rows_of_mask(~live.alive))
        sync(path.parent)
        files: dict[str, FileDigest] = {key: fact for key, fact in entry.files.items() if key != entry.dead_file}
        files[name] = fact
        return replace(live, entry=replace(entry, dead=live.dead, dead_file=name, files=files))
