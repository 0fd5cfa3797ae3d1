"""Create and open indices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from retrieval.errors import INDEX_INPUT_INVALID, INDEX_NOT_WRITTEN, IndexDamaged, IndexFault
from retrieval.index.backends.base import Backend
from retrieval.index.segments.index import IndexResources, SegmentedIndex
from retrieval.index.segments.manifest import Manifest, OpenOptions, check_files, check_fits
from retrieval.index.segments.search_thread import SearchThread
from retrieval.index.segments.snapshot import IndexSnapshot
from retrieval.index.segments.storage import Storage
from retrieval.index.spec import BackendName, IndexSpec


def create_index(folder: Path, spec: IndexSpec, options: OpenOptions | None = None) -> SegmentedIndex:
    """Create a new, empty index, opened for writing.

    Raises:
        IndexFault: the folder holds an index already; the back end does not work on this machine; another process
            writes to the folder; the folder cannot be written.
    """
    options = replace(options or OpenOptions(), write=True)
    storage = Storage(folder, options.disk)
    backend = backend_of(spec.backend, options)
    backend.kind_for(spec.kind, 1)
    storage.prepare()
    lock = storage.writer_lock()
    try:
        if storage.exists():
            raise IndexFault(f"{folder} holds an index already", INDEX_INPUT_INVALID, param="folder")
        empty = Manifest(
            generation=0, dim=spec.dim, metric=spec.metric, kind=spec.kind, encoder=spec.encoder_json(), segments=()
        )
        storage.publish(empty).close()
    except OSError as fault:
        raise IndexFault(f"{folder} could not be written: {fault}", INDEX_NOT_WRITTEN) from fault
    finally:
        lock.close()
    return SegmentedIndex(IndexResources(storage, backend, options, _owner(spec.backend, options)), empty)


def open_index(
    folder: Path, spec: IndexSpec, options: OpenOptions | None = None, known: IndexSnapshot | None = None
) -> SegmentedIndex:
    """Open the index of a folder, for reading unless ``options.write``.

    ``known`` is an earlier snapshot of the folder, by the same back end, whose segments are not read again.

    Raises:
        IndexDamaged: a file is missing, truncated or changed.
        IndexFault: it has another encoder, dimension, metric or schema than ``spec``; another process writes to the
            folder, and ``options.write`` is set; the back end does not work on this machine.
    """
    options = options or OpenOptions()
    storage = Storage(folder, options.disk)
    manifest, lock = storage.current()
    lock.close()
    check_fits(manifest, spec, str(folder))
    backend = backend_of(spec.backend, options)
    spec_manifest = replace(manifest, kind=spec.kind)
    index = SegmentedIndex(
        IndexResources(storage, backend, options, _owner(spec.backend, options)), spec_manifest, known
    )
    try:
        check_fits(index.manifest, spec, str(folder))
        if not options.write:
            index.warm()
    except BaseException:
        index.close()
        raise
    return index


def committed_rows(folder: Path) -> int:
    """Return the live rows of the last commit in a folder, 0 where there is none; open no segment.

    Raises:
        IndexDamaged: the manifest is missing or changed.
        IndexFault: it was written by another version of this program.
    """
    storage = Storage(folder, OpenOptions().disk)
    if not storage.exists():
        return 0
    manifest, lock = storage.current()
    lock.close()
    return manifest.rows


def committed_recall(folder: Path) -> float | None:
    """Return the recall at 10 of the last commit's worst segment; None where it was not measured, or nothing is there.

    Raises:
        IndexDamaged, IndexFault: as ``committed_rows``.
    """
    storage = Storage(folder, OpenOptions().disk)
    if not storage.exists():
        return None
    manifest, lock = storage.current()
    lock.close()
    return manifest.recall


def verify_files(folder: Path) -> None:
    """Check every byte of the last commit in a folder, which may have none.

    Raises:
        IndexDamaged: a file is missing, truncated or changed; the message names it.
        IndexFault: another version of this program wrote it.
    """
    storage = Storage(folder, OpenOptions().disk)
    if not storage.exists():
        return
    manifest, lock = storage.current()
    try:
        check_files(folder, manifest.files(), "full")
    except OSError as fault:
        raise IndexDamaged(f"{fault.filename} is missing or cannot be read: {fault.strerror}") from fault
    finally:
        lock.close()


def backend_of(name: BackendName, options: OpenOptions) -> Backend:
    """Return the back end with that name.

    Raises:
        IndexFault: it does not work on this machine; no back end has that name.
    """
    if options.backend is not None:
        return options.backend
    # Imported on demand: faiss and torch take seconds and memory to load.
    if name == "torch":
        from retrieval.index.backends.torch_flat import TorchFlatBackend

        return TorchFlatBackend(device=options.device, scratch_bytes=options.scratch_bytes)
    if name == "faiss-gpu":
        from retrieval.index.backends.faiss_gpu import FaissGpuBackend

        return FaissGpuBackend(device=options.device, threads=options.threads, probe_share=options.probe_share)
    if name == "faiss":
        from retrieval.index.backends.faiss_cpu import FaissCpuBackend

        return FaissCpuBackend(threads=options.threads, probe_share=options.probe_share)
    raise IndexFault(f"no such back end: {name}", INDEX_INPUT_INVALID, param="backend")


def _owner(name: BackendName, options: OpenOptions) -> SearchThread | None:
    """Return the search thread of a device, None on the CPU."""
    if name == "faiss" or (name == "torch" and options.device == "cpu"):
        return None
    return SearchThread(window_s=options.batch_ms / 1_000, bound=options.queue)
