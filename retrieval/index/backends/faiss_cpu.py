"""Build search structures with faiss, and search them on the CPU: every index type, native selectors, mapped files.

The structures of the approximate types are built over centred vectors, in blocks.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats, Metric
from models.torch_runtime.openmp import run_in_new_thread
from retrieval.errors import BACKEND_UNAVAILABLE, IndexDamaged, IndexFault
from retrieval.index.backends.base import Searcher, SegmentVectors, Sink
from retrieval.index.base import Mask
from retrieval.index.spec import Kind, KindChoice, ef_search_for, kind_of, lists_for, pq_parts, probes_for

# Since faiss 1.15 a flat search of 2..166 queries of 768 dimensions uses a loop that takes 12 to 24 times as long as
# BLAS (facebookresearch/faiss#5022, #5109).
_BLAS_THRESHOLD: Final = 3 * 768
_WHEELS: Final = ("faiss-gpu", "faiss-gpu-cuvs", "faiss-cuda", "faiss-gpu-cu12", "faiss-cpu")
_T = TypeVar("_T")
_LOADING: Final = threading.Lock()
_TRAIN_PER_LIST: Final = 64
_TRAIN_LEAST: Final = 65_536
_HNSW_LINKS: Final = 32
_HNSW_BUILD: Final = 80
_BLOCK: Final = 65_536
# Applied to a k of about three times the requested one: one bit per dimension says little about vectors without
# clusters.
_REFINE_FACTOR: Final = 10.0
_LARGE_PAGE: Final = 2**21
_MADV_COLLAPSE: Final = 25  # since Linux 6.1, an error before; not among the names of ``mmap``
# Numbers that one thread scans in 0.1 ms.
_QUICK_NUMBERS: Final = 2_000_000


def load_faiss() -> Any:
    """Return the faiss module, imported on first use.

    Raises:
        IndexFault: faiss is not installed, or one of its libraries is missing.
    """
    with _LOADING:
        try:
            import faiss
        except (ImportError, OSError) as fault:
            raise IndexFault(f"faiss cannot be loaded ({wheel()}): {fault}", BACKEND_UNAVAILABLE) from fault
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


def build_structure(faiss: Any, data: SegmentVectors, sink: Sink) -> None:
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


class FaissCpuBackend:
    """Build and search every index type with faiss on the CPU.

    ``probe_share`` of the inverted lists are probed, None for each segment's own, more under a selective filter.
    """

    name = "faiss"

    def __init__(self, *, threads: int = 0, probe_share: float | None = None) -> None:
        self._threads = threads
        self._probe_share = probe_share

    def kind_for(self, choice: KindChoice, rows: int) -> Kind:
        return kind_of(choice, rows)

    def build(self, data: SegmentVectors, sink: Sink) -> None:
        faiss = load_faiss()
        with_threads(faiss, self._threads, partial(build_structure, faiss, data, sink))

    def open(self, data: SegmentVectors) -> Searcher:
        faiss = load_faiss()
        is_flat = data.index_file is None
        index = with_threads(faiss, self._threads, partial(flat_index if is_flat else read_index, faiss, data))
        if is_flat:
            put_on_large_pages(index)
        share = data.probe_share if self._probe_share is None else self._probe_share
        memory, is_scan = data.vectors.nbytes if is_flat else 0, isinstance(index, faiss.IndexScalarQuantizer)
        return _FaissSearcher(faiss, index, memory, share, self._threads, exact=is_flat, is_scan=is_scan)

    def describe(self) -> dict[str, Any]:
        return {"backend": self.name, "wheel": wheel()}


def flat_index(faiss: Any, data: SegmentVectors) -> Any:
    """Build an exact in-memory index of the float16 rows as stored, without a second rounding."""
    rows, dim = data.vectors.shape
    index = faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, metric_of(faiss, data.metric))
    for start in range(0, rows, _BLOCK):
        block = np.ascontiguousarray(data.vectors[start : start + _BLOCK])
        index.add_sa_codes(block.view(np.uint8).reshape(len(block), -1))
    return index


def put_on_large_pages(index: Any) -> None:
    """Move a flat index's rows to pages of 2 MB as far as Linux can: a scan of 77 MB then takes 0.6 of the time."""
    rows = index.codes
    start = -(-int(rows.data()) // _LARGE_PAGE) * _LARGE_PAGE
    length = (int(rows.data()) + rows.size()) // _LARGE_PAGE * _LARGE_PAGE - start
    if length > 0 and sys.platform == "linux":
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _MADV_COLLAPSE)


def read_index(faiss: Any, data: SegmentVectors, *, mapped: bool = True) -> Any:
    """Read the file of an approximate type.

    Raises:
        IndexDamaged: the file cannot be read, or does not match the segment's rows.
    """
    try:
        index = faiss.read_index(str(data.index_file), faiss.IO_FLAG_MMAP_IFC if mapped else 0)
    except RuntimeError as fault:
        raise IndexDamaged(f"{data.index_file} cannot be read: {fault}") from fault
    if (index.ntotal, index.d) != data.vectors.shape or index.metric_type != metric_of(faiss, data.metric):
        raise IndexDamaged(f"{data.index_file} is not over the {len(data.vectors)} rows beside it")
    return index


@dataclass(frozen=True, slots=True)
class _FaissSearcher:
    """Search one faiss index.

    Scores of SQ8, PQ and RaBitQ are estimates. Those over the rows as stored are ``exact``: faiss sums each row alike.
    ``owner`` is the index that holds this one's memory, if it is part of another.
    """

    faiss: Any
    index: Any
    memory: int
    probe_share: float
    threads: int
    exact: bool = False
    owner: Any = None
    is_scan: bool = False

    @property
    def flat(self) -> _FaissSearcher | None:
        """Return a searcher over the rows that a graph is built on or that candidates are refined with."""
        if self.is_scan:
            return self
        rows = getattr(self.index, "refine_index", None) or getattr(self.index, "storage", None)
        if rows is None:
            return None
        return replace(self, index=self.faiss.downcast_index(rows), memory=0, owner=self.index, is_scan=True)

    def search(
        self, queries: Floats, k: int, allowed: Mask | None, selectivity: float
    ) -> tuple[NDArray[np.int64], Floats]:
        bits = None if allowed is None else np.packbits(allowed, bitorder="little")
        selector = None if bits is None else self.faiss.IDSelectorBitmap(bits)
        parameters = self._parameters(selector, k, selectivity)
        search = partial(self.index.search, np.ascontiguousarray(queries), k, params=parameters)
        try:
            if self._is_quick(len(queries)):
                self.faiss.omp_set_num_threads(1)  # of this thread: it gets no helpers
                scores, rows = search()
            else:
                scores, rows = with_threads(self.faiss, self.threads, search)
        except (RuntimeError, AssertionError) as fault:
            raise IndexFault(f"faiss could not search: {fault}") from fault
        return rows, scores if self.index.metric_type == self.faiss.METRIC_INNER_PRODUCT else -scores

    def bytes_memory(self) -> int:
        return self.memory

    def _is_quick(self, queries: int) -> bool:
        """Return whether threads gain nothing: faiss divides a scan by queries alone, and starting one takes 0.1 ms."""
        return self.is_scan and (queries == 1 or queries * self.index.ntotal * self.index.d <= _QUICK_NUMBERS)

    def _parameters(self, selector: Any, k: int, selectivity: float) -> Any:
        faiss, index = self.faiss, self.index
        chosen = {} if selector is None else {"sel": selector}
        if self.is_scan:
            return faiss.SearchParameters(**chosen) if chosen else None
        if hasattr(index, "base_index"):
            inner = self._ivf(faiss.downcast_index(index.base_index), chosen, selectivity)
            return faiss.IndexRefineSearchParameters(k_factor=_REFINE_FACTOR, base_index_params=inner)
        if hasattr(index, "nlist"):
            return self._ivf(index, chosen, selectivity)
        return faiss.SearchParametersHNSW(efSearch=max(ef_search_for(selectivity), 2 * k), **chosen)

    def _ivf(self, index: Any, chosen: dict[str, Any], selectivity: float) -> Any:
        probes = probes_for(index.nlist, self.probe_share, selectivity)
        return self.faiss.SearchParametersIVF(nprobe=probes, **chosen)
