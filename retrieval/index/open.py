"""Makes and opens indices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from retrieval.index.backend import Backend
from retrieval.index.errors import IndexInputInvalid, IndexWriteFailed
from retrieval.index.manifest import Manifest, check_fits
from retrieval.index.options import OpenOptions
from retrieval.index.owner import SearchOwner
from retrieval.index.segmented import Opening, SegmentedIndex
from retrieval.index.spec import BackendName, IndexSpec
from retrieval.index.storage import Storage
from retrieval.index.view import View


def create_index(folder: Path, spec: IndexSpec, options: OpenOptions | None = None) -> SegmentedIndex:
    """A new, empty index, opened for writing.

    Raises:
        IndexInputInvalid: there is one in the folder already.
        BackendUnavailable, IndexBusy, IndexWriteFailed
    """
    options = replace(options or OpenOptions(), write=True)
    storage = Storage(folder, options.disk)
    backend = backend_of(spec.backend, options)
    backend.kind_for(spec.kind, 1)
    storage.prepare()
    lock = storage.writer_lock()
    try:
        if storage.exists():
            raise IndexInputInvalid(f"{folder} holds an index already", param="folder")
        empty = Manifest(
            generation=0, dim=spec.dim, metric=spec.metric, kind=spec.kind, encoder=spec.encoder_json(), segments=()
        )
        storage.publish(empty).close()
    except OSError as fault:
        raise IndexWriteFailed(f"{folder} could not be written: {fault}") from fault
    finally:
        lock.close()
    return SegmentedIndex(Opening(storage, backend, options, _owner(spec.backend, options)), empty)


def open_index(
    folder: Path, spec: IndexSpec, options: OpenOptions | None = None, known: View | None = None
) -> SegmentedIndex:
    """The index of a folder, for reading unless ``options.write``. ``known``: an earlier view of it, by the same back
    end, whose segments need not be read again.

    Raises:
        IndexDamaged: a file is missing, cut or changed.
        IndexMismatch: it is of another encoder, dimension, metric or schema than ``spec``.
        IndexBusy: for writing, and another process does.
        BackendUnavailable
    """
    options = options or OpenOptions()
    storage = Storage(folder, options.disk)
    manifest, lock = storage.current()
    lock.close()
    check_fits(manifest, spec, str(folder))
    backend = backend_of(spec.backend, options)
    wanted = replace(manifest, kind=spec.kind)
    index = SegmentedIndex(Opening(storage, backend, options, _owner(spec.backend, options)), wanted, known)
    try:
        check_fits(index.manifest, spec, str(folder))
        if not options.write:
            index.warm()
    except BaseException:
        index.close()
        raise
    return index


def backend_of(name: BackendName, options: OpenOptions) -> Backend:
    """BackendUnavailable where it does not work here."""
    # Each is imported only where it is asked for: faiss and torch take seconds and memory.
    if name == "torch":
        from retrieval.index.torch_flat import TorchFlatBackend

        return TorchFlatBackend(device=options.device)
    if name == "faiss-gpu":
        from retrieval.index.faiss_gpu import FaissGpuBackend

        return FaissGpuBackend(device=options.device, threads=options.threads, probe_share=options.probe_share)
    if name == "faiss":
        from retrieval.index.faiss_cpu import FaissCpuBackend

        return FaissCpuBackend(threads=options.threads, probe_share=options.probe_share)
    raise IndexInputInvalid(f"no such back end: {name}", param="backend")


def _owner(name: BackendName, options: OpenOptions) -> SearchOwner | None:
    """For a device, the one thread that may use it."""
    if name == "faiss" or (name == "torch" and options.device == "cpu"):
        return None
    return SearchOwner(window_s=options.batch_ms / 1_000, bound=options.queue)
