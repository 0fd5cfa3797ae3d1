"""Search with faiss on the CPU: every index type, native selectors, memory-mapped files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats
from retrieval.index.backends import faiss_build
from retrieval.index.backends.base import Searcher, SegmentVectors, Sink
from retrieval.index.backends.faiss_build import load_faiss, metric_of, wheel, with_threads
from retrieval.index.base import Mask
from retrieval.index.errors import IndexDamaged, IndexFault
from retrieval.index.spec import Kind, KindChoice, kind_of, probes_for

_BLOCK: Final = 65_536
# Applied to a k of about three times the requested one: one bit per dimension says little about vectors without
# clusters.
_REFINE_FACTOR: Final = 10.0
_HNSW_LEAST: Final = 128
_NEARLY_ALL: Final = 0.9  # as where some rows were deleted


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
        with_threads(faiss, self._threads, partial(faiss_build.build, faiss, data, sink))

    def open(self, data: SegmentVectors) -> Searcher:
        faiss = load_faiss()
        is_flat = data.index_file is None
        index = with_threads(faiss, self._threads, partial(flat_index if is_flat else read_index, faiss, data))
        share = data.probe_share if self._probe_share is None else self._probe_share
        return _FaissSearcher(faiss, index, data.vectors.nbytes if is_flat else 0, share, self._threads)

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
    """Search one faiss index; scores of SQ8, PQ and RaBitQ are estimates, so none counts as exact."""

    faiss: Any
    index: Any
    memory: int
    probe_share: float
    threads: int

    @property
    def exact(self) -> bool:
        return False

    @property
    def filters_exactly(self) -> bool:
        """Return whether the index is flat: a flat scan skips the rows that the selector excludes."""
        return self.memory > 0

    def search(
        self, queries: Floats, k: int, allowed: Mask | None, selectivity: float
    ) -> tuple[NDArray[np.int64], Floats]:
        bits = None if allowed is None else np.packbits(allowed, bitorder="little")
        selector = None if bits is None else self.faiss.IDSelectorBitmap(bits)
        parameters = self._parameters(selector, k, selectivity)
        try:
            search = partial(self.index.search, np.ascontiguousarray(queries), k, params=parameters)
            scores, rows = with_threads(self.faiss, self.threads, search)
        except (RuntimeError, AssertionError) as fault:
            raise IndexFault(f"faiss could not search: {fault}") from fault
        return rows, scores if self.index.metric_type == self.faiss.METRIC_INNER_PRODUCT else -scores

    def bytes_memory(self) -> int:
        return self.memory

    def _parameters(self, selector: Any, k: int, selectivity: float) -> Any:
        faiss, index = self.faiss, self.index
        chosen = {} if selector is None else {"sel": selector}
        if hasattr(index, "base_index"):
            inner = self._ivf(faiss.downcast_index(index.base_index), chosen, selectivity)
            return faiss.IndexRefineSearchParameters(k_factor=_REFINE_FACTOR, base_index_params=inner)
        if hasattr(index, "nlist"):
            return self._ivf(index, chosen, selectivity)
        if hasattr(index, "hnsw"):
            # Rows that pass may lie together, far from the question: twice what evenly spread ones would need.
            wider = 1.0 if selectivity > _NEARLY_ALL else min(16.0, 2.0 / max(selectivity, 1e-9))
            ef_search = int(_HNSW_LEAST * wider)
            return faiss.SearchParametersHNSW(efSearch=max(ef_search, 2 * k), **chosen)
        return faiss.SearchParameters(**chosen) if chosen else None

    def _ivf(self, index: Any, chosen: dict[str, Any], selectivity: float) -> Any:
        probes = probes_for(index.nlist, self.probe_share, selectivity)
        return self.faiss.SearchParametersIVF(nprobe=probes, **chosen)
