"""The faiss back end on the CPU: every type, real selectors, files mapped rather than read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats
from retrieval.index import faiss_build
from retrieval.index.backend import Searcher, SegmentVectors, Sink
from retrieval.index.columns import Mask
from retrieval.index.errors import IndexDamaged, IndexFault
from retrieval.index.faiss_library import load_faiss, metric_of, wheel, with_threads
from retrieval.index.spec import Kind, KindChoice, kind_of, probes_for

_BLOCK: Final = 65_536
# Over a k that is some three times what was asked for: one bit per number tells little of vectors without clusters.
_REFINE_FACTOR: Final = 10.0
_HNSW_LEAST: Final = 128


class FaissCpuBackend:
    """``probe_share`` of the inverted lists are looked into where no filter asks for more."""

    name = "faiss"

    def __init__(self, *, threads: int = 0, probe_share: float = 0.25) -> None:
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
        return _FaissSearcher(faiss, index, data.vectors.nbytes if is_flat else 0, self._probe_share, self._threads)

    def describe(self) -> dict[str, Any]:
        return {"backend": self.name, "wheel": wheel()}


def flat_index(faiss: Any, data: SegmentVectors) -> Any:
    """Exact, float16 in memory: the rows as they are on the disk, no second rounding."""
    rows, dim = data.vectors.shape
    index = faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, metric_of(faiss, data.metric))
    for start in range(0, rows, _BLOCK):
        block = np.ascontiguousarray(data.vectors[start : start + _BLOCK])
        index.add_sa_codes(block.view(np.uint8).reshape(len(block), -1))
    return index


def read_index(faiss: Any, data: SegmentVectors, *, mapped: bool = True) -> Any:
    """The file of an approximate type.

    Raises:
        IndexDamaged: it cannot be read, or it is not over these rows.
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
    """Scores of SQ8, PQ and RaBitQ are estimates, so none counts as exact."""

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
        """A flat scan passes over what the selector leaves out."""
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
            grown = int(_HNSW_LEAST * min(16.0, 1.0 / np.sqrt(max(selectivity, 1e-9))))
            return faiss.SearchParametersHNSW(efSearch=max(grown, 2 * k), **chosen)
        return faiss.SearchParameters(**chosen) if chosen else None

    def _ivf(self, index: Any, chosen: dict[str, Any], selectivity: float) -> Any:
        probes = probes_for(index.nlist, self.probe_share, selectivity)
        return self.faiss.SearchParametersIVF(nprobe=probes, **chosen)
