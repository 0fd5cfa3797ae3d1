"""A lock that is handed on in turn."""

from __future__ import annotations

import threading
from types import TracebackType


class FairLock:
    """Mutual exclusion in which a thread that lets go and asks again cannot overtake one that waits.

    Bulk encoding takes it once per batch; with a plain lock it would nearly always win it back and starve a query.
    """

    def __init__(self) -> None:
        self._door = threading.Lock()
        self._room = threading.Lock()

    def __enter__(self) -> None:
        # Whoever waits for the room holds the door, so the one that leaves the room queues behind it.
        with self._door:
            self._room.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._room.release()
