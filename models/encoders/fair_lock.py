"""Provide a lock that does not starve a waiting thread."""

from __future__ import annotations

import threading
from types import TracebackType


class FairLock:
    """Exclude other threads, and keep a thread that releases and re-acquires from overtaking one that waits.

    Bulk encoding acquires the lock once per batch; with a plain lock it would nearly always win and starve a query.
    """

    def __init__(self) -> None:
        self._door = threading.Lock()
        self._room = threading.Lock()

    def __enter__(self) -> None:
        # A waiting thread holds the outer lock, so a thread that releases the inner lock queues after it.
        with self._door:
            self._room.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._room.release()
