"""Search with faiss on a CUDA device: flat float16 and IVF-SQ8, copied from disk into device memory.

Its indices support a single thread and silently ignore selectors. Searches therefore run through ``SearchThread``, and
a filtered search over-fetches and drops the rows that are not allowed; the caller scans where too few remain.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats
from retrieval.errors import BACKEND_UNAVAILABLE, INDEX_INPUT_INVALID, IndexFault
from retrieval.index.backends.base import Searcher, SegmentVectors, Sink, best
from retrieval.index.backends.faiss_cpu import build_structure, load_faiss, metric_of, read_index, wheel, with_threads
from retrieval.index.base import NO_ID, Mask
from retrieval.index.spec import Kind, KindChoice, kind_of, probes_for

# The classic GPU build's upper bound on k and on nprobe.
MAX_GPU_K: Final = 2_048
# IVF's kernels for more hits are not launched on compute capability 9.0, and faiss 1.15.1 then aborts the process.
MAX_IVF_K: Final = 512
_BLOCK: Final = 1 << 20
_TEMP_BYTES: Final = 256 << 20
_PINNED_BYTES: Final = 64 << 20
_DRIVER_FILE: Final = Path("/proc/driver/nvidia/version")


class FaissGpuBackend:
    """Build and search flat and IVF-SQ8 indices on a CUDA device.

    All segments share one ``StandardGpuResources``, because each allocates its own scratch memory.
    """

    name = "faiss-gpu"

    def __init__(self, *, device: str = "cuda:0", threads: int = 0, probe_share: float | None = None) -> None:
        """Load faiss and run a probe search on the device.

        Raises:
            IndexFault: faiss cannot be loaded, or a search of a thousand vectors fails on the device.
        """
        self._faiss = load_faiss()
        self._threads = threads
        self._device = int(device.partition(":")[2] or 0)
        self._probe_share = probe_share
        try:
            self._resources = self._faiss.StandardGpuResources()
            self._resources.setTempMemory(_TEMP_BYTES)
            self._resources.setPinnedMemory(_PINNED_BYTES)
            self._probe()
        except (RuntimeError, AttributeError, AssertionError) as fault:
            raise IndexFault(
                f"faiss finds nothing on device {self._device}: {fault}; {_system()}", BACKEND_UNAVAILABLE
            ) from fault

    def kind_for(self, choice: KindChoice, rows: int) -> Kind:
        """Return flat unless another type is requested, up to what fits the device.

        A scan of a million vectors of 768 numbers takes 3.5 ms on an H200.

        Raises:
            IndexFault: ``choice`` is neither flat nor ivf-sq8.
        """
        if choice not in ("auto", "flat", "ivf-sq8"):
            raise IndexFault(f"no {choice} on a GPU; there are flat and ivf-sq8", INDEX_INPUT_INVALID, param="kind")
        return "flat" if choice == "auto" else kind_of(choice, rows)

    def build(self, data: SegmentVectors, sink: Sink) -> None:
        with_threads(self._faiss, self._threads, partial(build_structure, self._faiss, data, sink))

    def open(self, data: SegmentVectors) -> Searcher:
        share = data.probe_share if self._probe_share is None else self._probe_share
        try:
            if data.kind == "ivf-sq8":
                index = read_index(self._faiss, data, mapped=False)
                options = self._faiss.GpuClonerOptions()
                on_device = self._faiss.index_cpu_to_gpu(self._resources, self._device, index, options)
                return GpuSearcher(self._faiss, ((0, on_device),), data.vectors.nbytes // 2, share)
            return GpuSearcher(self._faiss, self._flat(data), data.vectors.nbytes, share)
        except RuntimeError as fault:
            raise IndexFault(f"device {self._device} does not take {len(data.vectors)} rows: {fault}") from fault

    def describe(self) -> dict[str, Any]:
        return {"backend": self.name, "wheel": wheel(), "device": self._device}

    def _flat(self, data: SegmentVectors) -> tuple[tuple[int, Any], ...]:
        """Build flat indices of fixed size, each filled once: a flat index that grows copies itself at every page."""
        blocks = []
        for start in range(0, len(data.vectors), _BLOCK):
            vectors = np.ascontiguousarray(data.vectors[start : start + _BLOCK], dtype=np.float32)
            host = self._faiss.IndexFlat(vectors.shape[1], metric_of(self._faiss, data.metric))
            host.add(vectors)
            config = self._faiss.GpuIndexFlatConfig()
            config.device, config.useFloat16 = self._device, True
            blocks.append((start, self._faiss.GpuIndexFlat(self._resources, host, config)))
        return tuple(blocks)

    def _probe(self) -> None:
        vectors = np.random.default_rng(0).standard_normal((1_000, 32), dtype=np.float32).astype(np.float16)
        data = SegmentVectors(kind="flat", metric="inner_product", vectors=vectors)
        queries = vectors[:4].astype(np.float32)
        rows, _ = GpuSearcher(self._faiss, self._flat(data), 0, 1.0).search(queries, 1, None, 1.0)
        truth = np.argmax(queries @ vectors.astype(np.float32).T, axis=1)
        if not np.array_equal(rows[:, 0], truth):
            raise RuntimeError(f"a probe search gave rows {rows[:, 0].tolist()}, not {truth.tolist()}")


@dataclass(frozen=True, slots=True)
class GpuSearcher:
    """Search the blocks of one segment on the device.

    ``blocks`` are (first row, index). No score counts as exact: the device sums in float16.
    """

    faiss: Any
    blocks: tuple[tuple[int, Any], ...]
    memory: int
    probe_share: float

    @property
    def exact(self) -> bool:
        return False

    @property
    def flat(self) -> None:
        """Return None: the device takes no mask."""
        return None

    def search(
        self, queries: Floats, k: int, allowed: Mask | None, selectivity: float
    ) -> tuple[NDArray[np.int64], Floats]:
        num_candidates = k if allowed is None else int(np.ceil(2 * k / max(selectivity, 1e-9)))
        found = [self._block(start, index, queries, num_candidates, selectivity) for start, index in self.blocks]
        rows, scores = (np.hstack(part) for part in zip(*found, strict=True))
        if allowed is not None:
            rows = np.where(allowed[rows], rows, NO_ID)
        return best(rows, scores, min(k, rows.shape[1]))

    def bytes_memory(self) -> int:
        return self.memory

    def _block(
        self, start: int, index: Any, queries: Floats, k: int, selectivity: float
    ) -> tuple[NDArray[np.int64], Floats]:
        parameters, most = None, MAX_GPU_K
        if hasattr(index, "nlist"):
            most = MAX_IVF_K
            probes = min(MAX_GPU_K, probes_for(index.nlist, self.probe_share, selectivity))
            parameters = self.faiss.SearchParametersIVF(nprobe=probes)
        try:
            scores, rows = index.search(np.ascontiguousarray(queries), min(k, most, index.ntotal), params=parameters)
        except (RuntimeError, AssertionError) as fault:
            raise IndexFault(f"the device could not search: {fault}") from fault
        if index.metric_type != self.faiss.METRIC_INNER_PRODUCT:
            scores = -scores
        return np.where(rows >= 0, rows + start, NO_ID), scores


def _system() -> str:
    """Describe what decides whether code for the device exists: wheel, build options, architecture, driver."""
    parts = [wheel()]
    with contextlib.suppress(IndexFault, AttributeError):
        parts.append(str(load_faiss().get_compile_options()).strip())
    parts.append(f"architecture and driver: {_device_text()}")
    return "; ".join(parts)


def _device_text() -> str:
    command = shutil.which("nvidia-smi")
    if command is not None:
        query = [command, "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"]
        try:
            done = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True)
            return " | ".join(done.stdout.split("\n")).strip(" |")
        except (OSError, subprocess.SubprocessError):
            pass
    return _DRIVER_FILE.read_text().splitlines()[0] if _DRIVER_FILE.exists() else "no NVIDIA driver"
