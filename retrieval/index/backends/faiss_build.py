"""Build the search structures of the approximate types with faiss, over centred vectors, in blocks."""

from __future__ import annotations

import importlib.metadata
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

from models.encoders.base import Floats, Metric
from models.torch_runtime.openmp import run_in_new_thread
from retrieval.index.backends.base import SegmentVectors, Sink
from retrieval.index.errors import BackendUnavailable, IndexFault
from retrieval.index.spec import Kind, lists_for, pq_parts

# Since faiss 1.15 a flat search of 2..166 queries of 768 dimensions uses a loop that takes 12 to 24 times as long as
# BLAS (facebookresearch/faiss#5022, #5109).
_BLAS_THRESHOLD: Final = 3 * 768
_WHEELS: Final = ("faiss-gpu", "faiss-gpu-cuvs", "faiss-cuda", "faiss-gpu-cu12", "faiss-cpu")
_T = TypeVar("_T")
_LOADING: Final = threading.Lock()


def load_faiss() -> Any:
    """Return the faiss module, imported on first use.

    Raises:
        BackendUnavailable: faiss is not installed, or one of its libraries is missing.
    """
    with _LOADING:
        try:
            import faiss
        except (ImportError, OSError) as fault:
            raise BackendUnavailable(f"faiss cannot be loaded ({wheel()}): {fault}") from fault
        faiss.cvar.distance_compute_blas_threshold = _BLAS_THRESHOLD
        module: Any = faiss
        return module


def with_threads(faiss: Any, threads: int, call: Callable[[], _T]) -> _T:
    """Run ``call`` with ``threads`` OpenMP threads and return its result or raise its error.

    0 threads means one per core. OpenMP keeps that number per calling thread, not per process.
    """

    def counted() -> _T:
        if threads > 0:
            faiss.omp_set_num_threads(threads)
        return call()

    return run_in_new_thread(counted)


def metric_of(faiss: Any, metric: Metric) -> int:
    number: int = faiss.METRIC_INNER_PRODUCT if metric == "inner_product" else faiss.METRIC_L2
    return number


def wheel() -> str:
    """Return name and version of the installed wheel."""
    found = []
    for name in _WHEELS:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found) or "no faiss wheel"


_BLOCK: Final = 65_536
_TRAIN_PER_LIST: Final = 64
_TRAIN_LEAST: Final = 65_536
_HNSW_LINKS: Final = 32
_HNSW_BUILD: Final = 80


def build(faiss: Any, data: SegmentVectors, sink: Sink) -> None:
    """Train the structure, add the vectors, and write the file's bytes to ``sink``.

    Raises:
        IndexFault: faiss reported an error.
        OSError: ``sink`` failed.
    """
    rows, dim = data.vectors.shape
    try:
        index = _empty(faiss, data, dim)
        if not index.is_trained:
            index.train(_sample(data, rows))
        for start in range(0, rows, _BLOCK):
            index.add(_block(data, slice(start, start + _BLOCK)))
    except (RuntimeError, AssertionError) as fault:
        raise IndexFault(f"faiss could not build {data.kind} over {rows} x {dim}: {fault}") from fault
    _write(faiss, index, sink)


def factory_text(kind: Kind, rows: int, dim: int) -> str:
    """Return the description that ``faiss.index_factory`` parses."""
    lists = lists_for(rows)
    texts: dict[Kind, str] = {
        "sq8": "SQ8",
        "ivf-sq8": f"IVF{lists},SQ8",
        # "np": no polysemous training, which takes most of the build time and which no search here uses.
        "ivf-pq": f"IVF{lists},PQ{pq_parts(dim)}np",
        "hnsw": f"HNSW{_HNSW_LINKS}_SQfp16",
        "ivf-rabitq": f"IVF{lists},RaBitQfs,Refine(SQ8)",
    }
    return texts[kind]


def _empty(faiss: Any, data: SegmentVectors, dim: int) -> Any:
    # The metric is passed here and never set later: an HNSW index whose metric is set afterwards keeps an L2 storage
    # and finds the farthest vectors.
    text = factory_text(data.kind, len(data.vectors), dim)
    index = faiss.index_factory(dim, text, metric_of(faiss, data.metric))
    inner = faiss.downcast_index(index.base_index) if hasattr(index, "base_index") else index
    if hasattr(inner, "cp"):
        inner.cp.min_points_per_centroid = 1  # small segments are intended; no warnings on stderr
    if hasattr(inner, "pq"):
        inner.pq.cp.min_points_per_centroid = 1
    if hasattr(inner, "hnsw"):
        inner.hnsw.efConstruction = _HNSW_BUILD
    return index


def _sample(data: SegmentVectors, rows: int) -> Floats:
    sample_size = max(_TRAIN_LEAST, _TRAIN_PER_LIST * lists_for(rows))
    if rows <= sample_size:
        return _block(data, slice(0, rows))
    picked = np.sort(np.random.default_rng(0).choice(rows, sample_size, replace=False))
    return _block(data, picked)


def _block(data: SegmentVectors, rows: Any) -> Floats:
    found: Floats = np.ascontiguousarray(data.vectors[rows], dtype=np.float32)
    return found


def _write(faiss: Any, index: Any, sink: Sink) -> None:
    """Write the index to ``sink`` and re-raise the sink's first error.

    faiss replaces an error of the writer by one of its own, which hides the cause.
    """
    faults: list[OSError] = []

    def put(data: bytes) -> int:
        try:
            return sink(bytes(data))
        except OSError as fault:
            faults.append(fault)
            return 0

    writer = faiss.PyCallbackIOWriter(put)
    try:
        faiss.write_index(index, writer)
    except RuntimeError as fault:
        if faults:
            raise faults[0] from fault
        raise IndexFault(f"faiss could not write the index: {fault}") from fault
    finally:
        del writer  # flushes its buffer
    if faults:
        raise faults[0]
