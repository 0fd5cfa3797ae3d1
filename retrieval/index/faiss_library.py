"""Load faiss on first use and override its unsuitable defaults.

Never fork a process after faiss is loaded.
"""

from __future__ import annotations

import importlib.metadata
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from models.encoders.base import Metric
from models.openmp import in_own_thread
from retrieval.index.errors import BackendUnavailable

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

    return in_own_thread(counted)


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
