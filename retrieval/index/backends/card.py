"""Search segments on a card while they fit into its memory, and on the processor while they do not.

All indices of a process share one ``Card``. A segment is placed at its opening if the card keeps its reserve free; one
that found no room, or whose search failed there, is searched on the processor, and tried again as others give theirs
back. So an index that outgrows the card gets slower, and no search fails.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats
from retrieval.errors import IndexFault
from retrieval.index.backends.base import Backend, Candidates, Searcher, SegmentVectors, Sink, rescore
from retrieval.index.base import Mask
from retrieval.index.spec import GIB, Kind, KindChoice

log = logging.getLogger(__name__)
# After a failure of the card the wait is so many times as long: what it said was free was not.
_WAITS_AFTER_FAULT: Final = 30
# A mask on the card and the one that replaces it.
_MASK_BYTES: Final = 2
_NORM_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CardUse:
    """Count open segments by where they are searched, and the bytes that they take, or would take, on the card.

    ``searches_off``: searches of a segment that the processor did for want of room, since the start.
    """

    segments: int = 0
    bytes: int = 0
    segments_off: int = 0
    bytes_off: int = 0
    searches_off: int = 0

    def __str__(self) -> str:
        """Return where vectors are searched, for people."""
        on = f"{self.segments} segments of vectors ({self.bytes / GIB:.2f} GiB) are searched on the card"
        off = f"{self.segments_off} ({self.bytes_off / GIB:.2f} GiB) on the processor, as the card has no room for them"
        return f"{on}, {off}" if self.segments_off else on


class Card:
    """Implement ``Backend`` by two others: that of a device, made at first use, and the processor's.

    ``free`` returns the bytes of the device that an allocation may take now; ``keep`` of them stay free of vectors, for
    a search's scratch and other work. The memory is read again for a segment without room after ``wait_s``. One search
    or opening at a time has the device. Thread-safe.
    """

    def __init__(
        self,
        device: Callable[[], Backend],
        processor: Backend,
        free: Callable[[], int],
        *,
        keep: int = 0,
        wait_s: float = 1.0,
    ) -> None:
        self.keep = keep
        self.wait_s = wait_s
        self.processor = processor
        self.turn = threading.RLock()
        self._make = device
        self._free = free
        self._device: Backend | None = None
        self._counting = threading.Lock()
        self._searchers: weakref.WeakSet[PlacedSearcher] = weakref.WeakSet()
        self._searches_off = 0

    @property
    def device(self) -> Backend:
        """Return the device's back end.

        Raises:
            IndexFault: the device does not work at all, whatever its memory.
        """
        if self._device is None:
            with self.turn:
                if self._device is None:
                    self._device = self._make()
        return self._device

    @property
    def name(self) -> str:
        return self.device.name

    def kind_for(self, choice: KindChoice, rows: int) -> Kind:
        return self.device.kind_for(choice, rows)

    def build(self, data: SegmentVectors, sink: Sink) -> None:
        self.device.build(data, sink)

    def open(self, data: SegmentVectors) -> Searcher:
        with self.turn:
            searcher = PlacedSearcher(self, data)
        with self._counting:
            self._searchers.add(searcher)
        return searcher

    def describe(self) -> dict[str, Any]:
        return self.device.describe()

    def use(self) -> CardUse:
        """Return what is where now; waits for no search."""
        with self._counting:
            searchers, searches_off = list(self._searchers), self._searches_off
        on = [one.card_bytes for one in searchers if one.is_on_card]
        off = [one.card_bytes for one in searchers if not one.is_on_card]
        return CardUse(
            segments=len(on), bytes=sum(on), segments_off=len(off), bytes_off=sum(off), searches_off=searches_off
        )

    def free(self) -> int:
        """Return the free bytes of the device; 0 where it does not say."""
        try:
            return self._free()
        except RuntimeError:
            return 0

    def count_search_off(self) -> None:
        with self._counting:
            self._searches_off += 1


class PlacedSearcher:
    """Search one segment where it lies now; scores are exact wherever that is, so that it may change at any time."""

    def __init__(self, card: Card, data: SegmentVectors) -> None:
        """Place the segment; the caller has the card's turn."""
        self._card = card
        self._data = data
        self._on_card: Searcher | None = None
        self._on_processor: Searcher | None = None
        self._opening = threading.Lock()
        self._next_try = 0.0
        self._is_told = False
        self._place()

    @property
    def is_on_card(self) -> bool:
        return self._on_card is not None

    @property
    def card_bytes(self) -> int:
        """Return what the segment takes on a card: rows in 16 bits, masks and, for distances, norms."""
        rows, dim = self._data.vectors.shape
        each = 2 * dim + _MASK_BYTES + (_NORM_BYTES if self._data.metric == "l2" else 0)
        return int(rows * each)

    @property
    def exact(self) -> bool:
        return True

    @property
    def flat(self) -> Searcher | None:
        searcher = self._on_card or self._processor()
        return None if searcher.flat is None else _Scan(self)

    def search(self, queries: Floats, k: int, allowed: Mask | None, selectivity: float) -> Candidates:
        return self.find(lambda searcher: searcher.search(queries, k, allowed, selectivity), queries)

    def find(self, search: Callable[[Searcher], Candidates], queries: Floats) -> Candidates:
        """Return the hits of ``search`` on the card, or on the processor where it is not there or fails."""
        with self._card.turn:
            self._place()
            if self._on_card is not None:
                try:
                    return self._scored(self._on_card, search(self._on_card), queries)
                except IndexFault as fault:
                    self._remove(fault)
        self._card.count_search_off()
        processor = self._processor()
        return self._scored(processor, search(processor), queries)

    def bytes_memory(self) -> int:
        searcher = self._on_card or self._on_processor
        return 0 if searcher is None else searcher.bytes_memory()

    def _scored(self, searcher: Searcher, found: Candidates, queries: Floats) -> Candidates:
        rows, scores = found
        return rows, scores if searcher.exact else rescore(self._data.metric, queries, self._data.vectors, rows)

    def _processor(self) -> Searcher:
        with self._opening:
            if self._on_processor is None:
                self._on_processor = self._card.processor.open(self._data)
            return self._on_processor

    def _place(self) -> None:
        """Bring the segment onto the card if there is room for it, unless that was tried a moment ago."""
        if self._on_card is not None or time.monotonic() < self._next_try:
            return
        device, free = self._card.device, self._card.free()
        if free - self.card_bytes < self._card.keep:
            self._stay_off(1, f"{free / GIB:.2f} GiB are free, of which {self._card.keep / GIB:.2f} stay so")
            return
        try:
            self._on_card = device.open(self._data)
        except IndexFault as fault:
            self._stay_off(_WAITS_AFTER_FAULT, type(fault.__cause__ or fault).__name__)
            return
        with self._opening:
            self._on_processor = None
        if self._is_told:
            log.info("vectors are searched on the card again: bytes=%d", self.card_bytes)
            self._is_told = False

    def _remove(self, fault: IndexFault) -> None:
        """Take the segment off the card, which gives the others the room that this search did not find."""
        self._on_card = None
        self._stay_off(_WAITS_AFTER_FAULT, f"a search failed: {type(fault.__cause__ or fault).__name__}")

    def _stay_off(self, waits: int, cause: str) -> None:
        self._next_try = time.monotonic() + waits * self._card.wait_s
        if not self._is_told:
            log.warning(
                "vectors are searched on the processor, for want of room on the card: bytes=%d cause=%s",
                self.card_bytes,
                cause,
            )
            self._is_told = True


@dataclass(frozen=True, slots=True)
class _Scan:
    """Scan all rows of a segment, wherever it lies."""

    placed: PlacedSearcher

    @property
    def exact(self) -> bool:
        return True

    @property
    def flat(self) -> Searcher:
        return self

    def search(
        self, queries: Floats, k: int, allowed: Mask | None, selectivity: float
    ) -> tuple[NDArray[np.int64], Floats]:
        return self.placed.find(
            lambda searcher: (searcher.flat or searcher).search(queries, k, allowed, selectivity), queries
        )

    def bytes_memory(self) -> int:
        return 0
