"""Define how stores reach a PostgreSQL database that several servers share, and pool connections to an SQLite file.

``server.state`` implements the first. The pool's connections only read; another one may be writing to the file.
"""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Protocol

Row = tuple[Any, ...]
_PAGE_CACHE_KIB: Final = 16_384


class Connection(Protocol):
    """Run statements with ``%s`` for parameters; outside ``transaction`` each one is its own transaction.

    One thread at a time uses it. Texts have U+FFFD for NUL, which PostgreSQL cannot store.

    Every method raises DatabaseUnavailable where the database does not answer or refuses.
    """

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Run a statement and return its rows."""

    def run(self, sql: str, parameters: Sequence[object] = ()) -> int:
        """Run a statement and return how many rows it changed."""

    def transaction(self) -> AbstractContextManager[None]:
        """Run the block as one transaction, which an error rolls back; inside another one, as a part of it."""

    def lock(self, number: int, wait_s: float) -> bool:
        """Take an advisory lock until the connection is closed or lost; return False where another one has it."""

    def close(self) -> None: ...


class SharedDatabase(Protocol):
    """Give connections to one database; thread-safe, and blocking."""

    def connection(self) -> AbstractContextManager[Connection]:
        """Lend a connection of the pool for short statements.

        Raises:
            DatabaseUnavailable: the database does not answer, or every connection is lent for too long.
        """

    def session(self) -> Connection:
        """Open a connection of its own, for long statements and transactions; the caller closes it.

        Raises:
            DatabaseUnavailable: the database does not answer, or refuses.
        """

    def close(self) -> None: ...


class ReadPool:
    """Lend connections to many threads; a thread that finds none idle waits for one."""

    def __init__(self, path: Path, size: int, *, busy_s: float = 5.0) -> None:
        """Open all connections.

        Raises:
            sqlite3.Error: the file is missing or cannot be opened.
        """
        self._path = path
        self._busy_s = busy_s
        self._idle: queue.LifoQueue[sqlite3.Connection] = queue.LifoQueue()
        self._pinned = threading.local()
        self._closed = False
        try:
            for _ in range(size):
                self._idle.put(self._connect())
        except BaseException:
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        uri = f"{self._path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None, timeout=self._busy_s)
        connection.execute(f"PRAGMA cache_size = -{_PAGE_CACHE_KIB}")
        return connection

    @contextlib.contextmanager
    def acquire(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection for the duration of the block.

        Raises:
            sqlite3.ProgrammingError: the pool is closed.
        """
        if self._closed:
            raise sqlite3.ProgrammingError("the store is closed")
        if (pinned := getattr(self._pinned, "connection", None)) is not None:
            yield pinned
            return
        connection = self._idle.get()
        try:
            yield connection
        finally:
            if self._closed:
                connection.close()
            else:
                self._idle.put(connection)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Pin one connection to this thread for the duration of the block.

        Every ``acquire`` inside yields it, and it sees the file as of the first statement.
        """
        with self.acquire() as connection:
            connection.execute("BEGIN")
            self._pinned.connection = connection
            try:
                yield
            finally:
                self._pinned.connection = None
                connection.rollback()

    def close(self) -> None:
        """Close idle connections now and lent ones when they are returned."""
        self._closed = True
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()
