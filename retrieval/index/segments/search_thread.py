"""Run all searches of a device on one thread, several requests at a time.

Device indices are not thread-safe, and a pass over all vectors costs the same for one query as for thirty: requests
that arrive within a few milliseconds are batched.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from models.encoders.base import Floats
from retrieval.errors import INDEX_FULL, IndexFault
from retrieval.index.base import Neighbours, RowFilter

Search = Callable[[Floats, int, RowFilter | None], Neighbours]
_MOST_QUERIES: Final = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    search: Search
    queries: Floats
    k: int
    where: RowFilter | None
    reply: Future[Neighbours] = field(default_factory=Future)

    def batches_with(self, other: _Request) -> bool:
        """Return whether both requests have the same search and the same filter.

        Filters with ids are compared by identity: comparing their contents would cost more.
        """
        if self.search != other.search:
            return False
        if self.where is other.where:
            return True
        own_filter, other_filter = self.where, other.where
        return (
            own_filter is not None
            and other_filter is not None
            and own_filter.ids is None
            and other_filter.ids is None
            and own_filter == other_filter
        )


class SearchThread:
    """Run searches on one thread.

    ``window_s`` is how long the first request of a batch waits for others. At most ``bound`` requests wait.
    """

    def __init__(self, *, window_s: float = 0.003, bound: int = 1_024) -> None:
        self._requests: queue.Queue[_Request | None] = queue.Queue(maxsize=bound)
        self._window_s = window_s
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="index-search", daemon=True)
        self._thread.start()

    def search(self, search: Search, queries: Floats, k: int, where: RowFilter | None) -> Neighbours:
        """Return the result of ``search(queries, k, where)``, run on the search thread, or raise its error.

        Raises:
            IndexFault: the queue is full; the index is closed.
        """
        if threading.current_thread() is self._thread:
            return search(queries, k, where)
        return self.submit(search, queries, k, where).result()

    def submit(self, search: Search, queries: Floats, k: int, where: RowFilter | None) -> Future[Neighbours]:
        request = _Request(search=search, queries=queries, k=k, where=where)
        with self._closing:
            if self._closed:
                raise IndexFault("the index is closed")
            try:
                self._requests.put_nowait(request)
            except queue.Full as fault:
                raise IndexFault(f"{self._requests.maxsize} searches are waiting already", INDEX_FULL) from fault
        return request.reply

    def close(self) -> None:
        """Stop the thread after every accepted request is answered."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._requests.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while (first := self._requests.get()) is not None:
            batch, last = self._gathered(first)
            for group in _groups(batch):
                _answer(group)
            if last:
                return

    def _gathered(self, first: _Request) -> tuple[list[_Request], bool]:
        """Return the first request and those that arrive in its window, and whether the thread stops after them."""
        batch, total = [first], len(first.queries)
        until = time.monotonic() + self._window_s
        while total < _MOST_QUERIES:
            try:
                request = self._requests.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return batch, False
            if request is None:
                return batch, True
            batch.append(request)
            total += len(request.queries)
        return batch, False


def _groups(batch: Sequence[_Request]) -> list[list[_Request]]:
    groups: list[list[_Request]] = []
    for request in batch:
        if not request.reply.set_running_or_notify_cancel():
            continue
        group = next((group for group in groups if group[0].batches_with(request)), None)
        if group is None:
            groups.append([request])
        else:
            group.append(request)
    return groups


def _answer(group: Sequence[_Request]) -> None:
    """Answer all requests of a group with one search; an error goes to each of them."""
    try:
        queries = np.concatenate([request.queries for request in group])
        found = group[0].search(queries, max(request.k for request in group), group[0].where)
    except BaseException as fault:
        for request in group:
            request.reply.set_exception(fault)
        return
    start = 0
    for request in group:
        end = start + len(request.queries)
        request.reply.set_result(Neighbours(found.ids[start:end, : request.k], found.scores[start:end, : request.k]))
        start = end
