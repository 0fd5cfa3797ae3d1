"""A stand-in for a database of shared namespaces that answers when it is let go."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

from retrieval.storage.database import Connection, Row

_MOST_S = 5.0


class SlowDatabase:
    """Answers each statement with its names, as soon as ``go`` is set; ``asked`` is set by the first one."""

    def __init__(self, *names: str) -> None:
        self.asked, self.go = threading.Event(), threading.Event()
        self.threads: list[str] = []
        self._names = names

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        yield self

    def session(self) -> Connection:
        raise AssertionError("a look-up of names needs no connection of its own")

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        self.threads.append(threading.current_thread().name)
        self.asked.set()
        assert self.go.wait(_MOST_S), "nothing else went on while the database was slow"
        return [(name,) for name in self._names]

    def run(self, sql: str, parameters: Sequence[object] = ()) -> int:
        raise AssertionError("a look-up of names changes nothing")

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def lock(self, number: int, wait_s: float) -> bool:
        return True

    def close(self) -> None:
        self.go.set()
