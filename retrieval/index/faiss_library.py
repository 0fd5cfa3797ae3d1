"""Loads faiss at its first use and sets what it gets wrong by default. Never fork a process after this."""

from __future__ import annotations

import importlib.metadata
import threading
from typing import Any, Final

from models.encoders.base import Metric
from retrieval.index.errors import BackendUnavailable

# Since faiss 1.15 a flat search of 2..166 queries of 768 numbers takes a slow loop: 12 to 24 times the time of a BLAS
# call (facebookresearch/faiss#5022, #5109).
_BLAS_THRESHOLD: Final = 3 * 768
_WHEELS: Final = ("faiss-gpu", "faiss-gpu-cuvs", "faiss-cuda", "faiss-gpu-cu12", "faiss-cpu")
_LOADING: Final = threading.Lock()


def load_faiss(threads: int = 0) -> Any:
    """The module. ``threads`` for the whole process, 0 to leave them as they are.

    Raises:
        BackendUnavailable: it is not installed, or one of its libraries is missing.
    """
    with _LOADING:
        try:
            import faiss
        except (ImportError, OSError) as fault:
            raise BackendUnavailable(f"faiss cannot be loaded ({wheel()}): {fault}") from fault
        faiss.cvar.distance_compute_blas_threshold = _BLAS_THRESHOLD
        if threads > 0:
            faiss.omp_set_num_threads(threads)
        module: Any = faiss
        return module


def metric_of(faiss: Any, metric: Metric) -> int:
    number: int = faiss.METRIC_INNER_PRODUCT if metric == "inner_product" else faiss.METRIC_L2
    return number


def wheel() -> str:
    """Name and version of the installed wheel."""
    found = []
    for name in _WHEELS:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found) or "no faiss wheel"
