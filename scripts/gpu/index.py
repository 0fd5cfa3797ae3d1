"""Measure torch's flat index on the card, and import into it until the card is full; no search may fail.

Latency, the share of the speed at which the card copies, and what a search allocates, for 10 million rows of 384
numbers and for as many of 768 as fit.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.index.base import Rows, VectorIndex
from retrieval.index.open import create_index
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.spec import IndexSpec
from scripts.gpu.figures import figure, is_dry

_GIB = 2**30
_K = 10
# Of what is free, the vectors; the rest is for searches.
_SHARE = 0.6
# Rows that lie on the disk of the machine too.
_MOST_BYTES = 16 * _GIB
_LEFT_FREE = 2 * _GIB
_BATCH = 200_000


class Card:
    """Make vectors and read memory where the index is; on the processor there is no memory of a card."""

    def __init__(self, torch: Any, device: str) -> None:
        self._torch, self.device = torch, device
        self._generator = torch.Generator(device).manual_seed(0)

    @property
    def is_gpu(self) -> bool:
        return self.device != "cpu"

    def vectors(self, rows: int, dim: int) -> Any:
        made = self._torch.randn(rows, dim, device=self.device, generator=self._generator)
        return made.cpu().numpy()

    def free(self) -> int:
        return int(self._torch.cuda.mem_get_info(0)[0]) if self.is_gpu else 0

    def hold(self, num_bytes: int) -> Any:
        return self._torch.empty(num_bytes, dtype=self._torch.uint8, device=self.device)

    def copy_speed(self, num_bytes: int) -> float:
        """Bytes a second that are read while as many are copied within the memory."""
        source = self.hold(num_bytes)
        target = self._torch.empty_like(source)

        def copy() -> None:
            target.copy_(source)
            if self.is_gpu:
                self._torch.cuda.synchronize()

        return num_bytes / median_s(copy)

    def scratch(self, work: Callable[[], object]) -> int:
        """Bytes that ``work`` allocates beyond what is there."""
        if not self.is_gpu:
            return 0
        self._torch.cuda.reset_peak_memory_stats()
        before = int(self._torch.cuda.memory_allocated())
        work()
        return int(self._torch.cuda.max_memory_allocated()) - before


def median_s(work: Callable[[], object], repeats: int = 15) -> float:
    """The median of the seconds of ``work``, after one run that warms up."""
    work()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def add(index: VectorIndex, card: Card, first: int, rows: int, dim: int) -> Any:
    """Add rows with ids from ``first`` + 1 on; return the vector of the last."""
    vectors = card.vectors(rows, dim)
    index.add(Rows(ids=np.arange(first + 1, first + rows + 1, dtype=np.int64), vectors=vectors))
    return vectors[-1:]


def filled(folder: Path, card: Card, rows: int, dim: int) -> VectorIndex:
    spec = IndexSpec(dim=dim, metric="inner_product", kind="flat", backend="torch")
    index = create_index(folder, spec, OpenOptions(device=card.device, write=True))
    for first in range(0, rows, _BATCH):
        add(index, card, first, min(_BATCH, rows - first), dim)
    index.commit()
    return index


def searches(index: VectorIndex, card: Card, rows: int, dim: int) -> None:
    queries = card.vectors(64, dim)
    one = median_s(lambda: index.search(queries[:1], _K))
    many = median_s(lambda: index.search(queries, _K))
    size = 2 * rows * dim
    share = size / one / card.copy_speed(min(size, 4 * _GIB))
    name = f"{rows:,} x {dim}"
    figure(name, f"one query {one * 1e3:.2f} ms, {share:.2f} of the copy bandwidth; 64 queries {many * 1e3:.2f} ms")
    figure(f"scratch of 64 queries, {name}", f"{card.scratch(lambda: index.search(queries, _K)) / 2**20:.0f} MiB")


def until_full(folder: Path, card: Card, dim: int, batch: int) -> list[str]:
    """Import until twice what is left of the card is added; what went wrong, one line each."""
    held = card.hold(max(card.free() - _LEFT_FREE, 1)) if card.is_gpu else None
    index, found, rows = filled(folder, card, batch, dim), [], batch
    steps = 2 * _LEFT_FREE // (2 * batch * dim) if card.is_gpu else 3
    for _ in range(steps):
        try:
            last = add(index, card, rows, batch, dim)
            rows += batch
            index.commit()
            if rows not in index.search(last, 1).ids:
                found.append(f"at {rows:,} rows: the last row is not found")
        except Exception as error:
            found.append(f"at {rows:,} rows: {type(error).__name__}: {str(error)[:200]}")
            break
    figure("imported into a full card", f"{rows:,} x {dim}, {len(found)} failures")
    index.close()
    del held
    return found


def main(dry: bool) -> int:
    import torch

    card = Card(torch, "cpu" if dry else "cuda:0")
    with tempfile.TemporaryDirectory(prefix="first-light-") as name:
        folder = Path(name)
        for dim, most in ((384, 10_000_000), (768, _MOST_BYTES // 768 // 2)):
            rows = 20_000 if dry else min(most, int(card.free() * _SHARE) // (2 * dim) // _BATCH * _BATCH)
            index = filled(folder / str(dim), card, rows, dim)
            searches(index, card, rows, dim)
            index.close()
        found = until_full(folder / "full", card, 768, 2_000 if dry else 100_000)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(is_dry(__doc__)))
