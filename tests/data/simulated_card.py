"""A card without hardware: memory that is counted and can run out, under the real search of torch on the processor.

What torch would allocate on the device is taken from ``SimulatedCard`` first: the rows of a segment as long as it is
open, and a block of scores while a search runs.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from models.encoders.base import Floats
from retrieval.errors import IndexFault
from retrieval.index.backends.base import Candidates, Searcher, SegmentVectors, Sink
from retrieval.index.backends.card import Card
from retrieval.index.backends.faiss_cpu import FaissCpuBackend
from retrieval.index.backends.torch_flat import TorchFlatBackend
from retrieval.index.base import Mask
from retrieval.index.spec import Kind, KindChoice

_SCORE_BYTES = 4


class SimulatedCard:
    """``total`` bytes, of which programs beside this one hold ``others``; ``says`` more or less free than there is."""

    def __init__(self, total: int, says: int = 0) -> None:
        self.total = total
        self.says = says
        self.others = 0
        self.held = 0
        self.refused = 0
        self._lock = threading.Lock()

    def free(self) -> int:
        return self.total - self.held - self.others + self.says

    def take(self, num_bytes: int) -> None:
        with self._lock:
            if num_bytes > self.total - self.held - self.others:
                self.refused += 1
                raise IndexFault(f"out of memory: {num_bytes} bytes")
            self.held += num_bytes

    def give(self, num_bytes: int) -> None:
        with self._lock:
            self.held -= num_bytes

    @contextmanager
    def scratch(self, num_bytes: int) -> Iterator[None]:
        self.take(num_bytes)
        try:
            yield
        finally:
            self.give(num_bytes)


def card_without_room() -> Card:
    """A card on which nothing fits."""
    memory = SimulatedCard(0)
    return Card(lambda: CardBackend(memory), FaissCpuBackend(threads=1), memory.free)


class CardBackend:
    """Search on a simulated card; ``exact`` False hides, as FAISS on a GPU, that scores could be taken as they are."""

    name = "simulated"

    def __init__(self, card: SimulatedCard, *, exact: bool = True) -> None:
        self._card = card
        self._exact = exact
        self._real = TorchFlatBackend()

    def kind_for(self, choice: KindChoice, rows: int) -> Kind:
        return self._real.kind_for(choice, rows)

    def build(self, data: SegmentVectors, sink: Sink) -> None:
        self._real.build(data, sink)

    def open(self, data: SegmentVectors) -> Searcher:
        self._card.take(data.vectors.nbytes)
        return _CardSearcher(self._card, self._real.open(data), data, self._exact)

    def describe(self) -> dict[str, Any]:
        return {"backend": self.name}


class _CardSearcher:
    def __init__(self, card: SimulatedCard, inner: Searcher, data: SegmentVectors, exact: bool) -> None:
        self._card = card
        self._inner = inner
        self._rows = len(data.vectors)
        self.exact = exact
        weakref.finalize(self, card.give, data.vectors.nbytes)

    @property
    def flat(self) -> Searcher | None:
        return self if self.exact else None

    def search(self, queries: Floats, k: int, allowed: Mask | None, selectivity: float) -> Candidates:
        with self._card.scratch(_SCORE_BYTES * self._rows * len(queries)):
            return self._inner.search(queries, k, allowed, selectivity)

    def bytes_memory(self) -> int:
        return self._inner.bytes_memory()
