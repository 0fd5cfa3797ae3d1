"""Search float16 vectors exactly with torch, in device memory, with masks, on CUDA or the CPU.

Its CUDA libraries do not conflict with an engine in the same process, and its masks are reliable filters. A first pass
takes products of float16; its best candidates are rescored from the vectors in float64 on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from models.encoders.base import Floats, Metric
from models.torch_runtime.openmp import run_in_new_thread
from retrieval.errors import BACKEND_UNAVAILABLE, INDEX_INPUT_INVALID, IndexFault
from retrieval.index.backends.base import Searcher, SegmentVectors, Sink
from retrieval.index.base import NO_ID, Mask
from retrieval.index.spec import GIB, Kind, KindChoice

_T = TypeVar("_T")
_BLOCK_CUDA: Final = 1 << 20
_BLOCK_CPU: Final = 1 << 14
# The share of the scratch that one block of scores may take: on CUDA the best of a few long rows are found by sorting
# them, with their positions, into a copy.
_SCORE_SHARE: Final = 4
_SPARE: Final = 16
_PROBE_ROWS: Final = 1_000


class TorchFlatBackend:
    """Serve segments of any type from their float16 vectors, exactly; ``device`` is a torch device name.

    One search allocates at most ``scratch_bytes`` there: many queries use smaller blocks.
    """

    name = "torch"

    def __init__(self, *, device: str = "cpu", scratch_bytes: int = GIB) -> None:
        """Run a probe search on the device.

        Raises:
            IndexFault: a search of a thousand vectors fails on the device.
        """
        self._score_bytes = scratch_bytes // _SCORE_SHARE
        try:
            self._device = torch.device(device)
            self._probe()
        except (RuntimeError, AssertionError) as fault:
            raise IndexFault(
                f"torch {torch.__version__} cannot search on {device}: {fault}", BACKEND_UNAVAILABLE
            ) from fault

    def kind_for(self, choice: KindChoice, rows: int) -> Kind:
        if choice not in ("auto", "flat"):
            raise IndexFault(
                f"the torch back end makes flat segments only, not {choice}", INDEX_INPUT_INVALID, param="kind"
            )
        return "flat"

    def build(self, data: SegmentVectors, sink: Sink) -> None:
        raise IndexFault(f"the torch back end cannot build {data.kind}", INDEX_INPUT_INVALID, param="kind")

    def open(self, data: SegmentVectors) -> Searcher:
        try:
            return _compute(self._device, partial(_TorchSearcher, data, self._device, self._score_bytes))
        except RuntimeError as fault:
            raise IndexFault(f"{self._device} does not take {len(data.vectors)} rows: {fault}") from fault

    def describe(self) -> dict[str, Any]:
        return {"backend": self.name, "wheel": f"torch {torch.__version__}", "device": str(self._device)}

    def _probe(self) -> None:
        vectors = np.random.default_rng(0).standard_normal((_PROBE_ROWS, 32), dtype=np.float32).astype(np.float16)
        data = SegmentVectors(kind="flat", metric="inner_product", vectors=vectors)
        queries = vectors[:4].astype(np.float32)
        rows, _ = _TorchSearcher(data, self._device, self._score_bytes).search(queries, 1, None, 1.0)
        truth = np.argmax(queries @ vectors.astype(np.float32).T, axis=1)
        if not np.array_equal(rows[:, 0], truth):
            raise RuntimeError(f"a probe search gave rows {rows[:, 0].tolist()}, not {truth.tolist()}")


def _compute(device: torch.device, call: Callable[[], _T]) -> _T:
    """Run ``call`` in a thread of its own on the CPU, and in the calling search thread on a GPU."""
    return run_in_new_thread(call) if device.type == "cpu" else call()


@dataclass(slots=True)
class _MaskOnDevice:
    """Cache the last mask on the device: tombstones alone stay the same from search to search."""

    mask: Mask | None = None
    tensor: torch.Tensor | None = field(default=None)

    def of(self, mask: Mask, device: torch.device) -> torch.Tensor:
        tensor = self.tensor
        if tensor is None or self.mask is not mask:
            tensor = torch.from_numpy(np.ascontiguousarray(mask)).to(device)
            self.mask, self.tensor = mask, tensor
        return tensor


class _TorchSearcher:
    """Search one segment in blocks of bounded size, each filled once.

    On CUDA it is called by one thread, on the CPU by many.
    """

    def __init__(self, data: SegmentVectors, device: torch.device, score_bytes: int) -> None:
        self._score_bytes = score_bytes
        rows, dim = data.vectors.shape
        self._metric: Metric = data.metric
        self._device = device
        self._vectors = torch.empty((rows, dim), dtype=torch.float16, device=device)
        for start in range(0, rows, _BLOCK_CPU):
            block = np.array(data.vectors[start : start + _BLOCK_CPU])
            self._vectors[start : start + _BLOCK_CPU].copy_(torch.from_numpy(block))
        self._norms = _norms(self._vectors) if data.metric == "l2" else None
        self._masks = _MaskOnDevice() if device.type == "cuda" else None

    @property
    def exact(self) -> bool:
        return True

    @property
    def flat(self) -> Searcher:
        return self

    def search(
        self, queries: Floats, k: int, allowed: Mask | None, selectivity: float
    ) -> tuple[NDArray[np.int64], Floats]:
        """Return rows and scores, never of rows that the mask excludes."""
        return _compute(self._device, partial(self._search, queries, k, allowed))

    @torch.inference_mode()
    def _search(self, queries: Floats, k: int, allowed: Mask | None) -> tuple[NDArray[np.int64], Floats]:
        try:
            query_tensor = torch.from_numpy(np.ascontiguousarray(queries)).to(self._device)
            mask = None if allowed is None else self._mask(allowed)
            rows, rough = self._candidates(query_tensor, min(k + _SPARE, len(self._vectors)), mask)
            scores = self._scores(query_tensor, rows)
            scores[rough == -torch.inf] = -torch.inf
            rows[rough == -torch.inf] = NO_ID
            order = torch.argsort(scores, dim=1, descending=True)[:, :k]
            found = torch.gather(rows, 1, order).cpu().numpy(), torch.gather(scores, 1, order).float().cpu().numpy()
        except RuntimeError as fault:
            raise IndexFault(f"torch could not search on {self._device}: {fault}") from fault
        return found

    def bytes_memory(self) -> int:
        norms = 0 if self._norms is None else self._norms.nbytes
        return self._vectors.nbytes + norms

    def _mask(self, allowed: Mask) -> torch.Tensor:
        if self._masks is not None:
            return self._masks.of(allowed, self._device)
        return torch.from_numpy(allowed)

    def _candidates(
        self, queries: torch.Tensor, k: int, mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        most = _BLOCK_CPU if self._device.type == "cpu" else _BLOCK_CUDA
        size = max(k, min(most, self._score_bytes // (4 * max(1, len(queries)))))
        rows = torch.empty((len(queries), 0), dtype=torch.int64, device=self._device)
        best_scores = torch.empty((len(queries), 0), dtype=torch.float32, device=self._device)
        for start in range(0, len(self._vectors), size):
            scores = self._products(queries, start, start + size)
            if mask is not None:
                scores.masked_fill_(~mask[start : start + size], -torch.inf)
            top, positions = torch.topk(scores, min(k, scores.shape[1]), dim=1)
            best_scores, rows = torch.cat([best_scores, top], dim=1), torch.cat([rows, positions + start], dim=1)
            best_scores, order = torch.topk(best_scores, min(k, best_scores.shape[1]), dim=1)
            rows = torch.gather(rows, 1, order)
        return rows, best_scores

    def _products(self, queries: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """Return products summed in float32, because sums in float16 would lose the order of close scores."""
        vectors = self._vectors[start:end]
        if self._device.type == "cuda":
            scores = torch.mm(queries.half(), vectors.T, out_dtype=torch.float32)
        else:
            scores = queries @ vectors.float().T
        if self._norms is not None:
            scores.mul_(2).sub_(self._norms[start:end])
        return scores

    def _scores(self, queries: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Rescore a few queries at a time, because the vectors of all their candidates are in memory."""
        size = max(1, self._score_bytes // (32 * rows.shape[1] * queries.shape[1]))
        starts = range(0, len(queries), size)
        return torch.cat([self._true(queries[start : start + size], rows[start : start + size]) for start in starts])

    def _true(self, queries: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        found = self._vectors[rows].double()
        if self._metric == "l2":
            return -(found - queries.double()[:, None, :]).square_().sum(dim=2)
        return torch.bmm(found, queries.double()[:, :, None])[:, :, 0]


def _norms(vectors: torch.Tensor) -> torch.Tensor:
    norms = torch.empty(len(vectors), dtype=torch.float32, device=vectors.device)
    for start in range(0, len(vectors), _BLOCK_CPU):
        norms[start : start + _BLOCK_CPU] = vectors[start : start + _BLOCK_CPU].float().square().sum(dim=1)
    return norms
