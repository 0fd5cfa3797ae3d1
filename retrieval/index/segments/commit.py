"""Write one commit: new segments, the tombstones of the others, and the manifest that lists them all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from retrieval.index.backends.base import Backend
from retrieval.index.segments.manifest import Manifest, OpenOptions, SegmentEntry
from retrieval.index.segments.segment import Segment, open_segment
from retrieval.index.segments.segment_writer import RowSelection, SegmentPlan, rows_of_mask, write_array, write_segment
from retrieval.index.segments.snapshot import IndexSnapshot, LiveSegment, SegmentGroup, groups_at_commit, packed
from retrieval.index.segments.storage import Storage
from retrieval.storage.files import FileDigest, FileLock, sync

MEMTABLE: Final = 0


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
            self.manifest,
            generation=generation,
            corpus=corpus,
            segments=tuple(live.entry for live in live_segments),
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
            self.storage.folder, entry, self.manifest.metric, self.backend, self.options.gather_rows
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
