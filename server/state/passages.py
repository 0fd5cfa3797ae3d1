"""Give the stores of passages blocking connections to the database of shared state.

Searches and jobs run on threads, so they need no event loop.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from retrieval.errors import DatabaseUnavailable
from retrieval.storage.database import Row
from server.state.database import Database

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

log = logging.getLogger(__name__)
# A statement of a session: an index of a large namespace is built by one.
_LONG_S: Final = 6 * 3600.0
_MIN_LOCK_MS: Final = 1
_RETRY_S: Final = 0.5
_UNAVAILABLE: Final = "the database of shared passages does not answer"


class PassageDatabase:
    """Implement ``SharedDatabase``; one instance per process."""

    def __init__(self, database: Database, *, connections: int = 8) -> None:
        self._database = database
        self._connections = connections
        self._lock = threading.Lock()
        self._pool: ConnectionPool[psycopg.Connection[Row]] | None = None
        self._lost = threading.Event()
        self._closed = threading.Event()

    @contextmanager
    def connection(self) -> Iterator[DatabaseConnection]:
        from psycopg_pool import PoolTimeout

        if self._lost.is_set():
            raise DatabaseUnavailable(_UNAVAILABLE)
        pool = self._opened()
        try:
            with _failures(), pool.connection() as connection:
                yield DatabaseConnection(connection)
        except DatabaseUnavailable as error:
            if isinstance(error.__cause__, PoolTimeout):
                self._watch()
            raise

    def _watch(self) -> None:
        """Refuse connections at once until the database answers, so that no further caller waits for the time limit."""
        with self._lock:
            if self._lost.is_set() or self._closed.is_set():
                return
            self._lost.set()
        threading.Thread(target=self._wait_for_return, name="database-return", daemon=True).start()

    def _wait_for_return(self) -> None:
        while not self._closed.wait(_RETRY_S):
            try:
                self.session().close()
            except DatabaseUnavailable:
                continue
            self._lost.clear()
            return

    def session(self) -> DatabaseConnection:
        import psycopg

        with _failures():
            arguments = self._database.arguments(_LONG_S)
            return DatabaseConnection(psycopg.connect(**arguments, autocommit=True, prepare_threshold=None))

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _opened(self) -> ConnectionPool[psycopg.Connection[Row]]:
        from psycopg_pool import ConnectionPool

        with self._lock:
            if self._pool is None:
                timeout_s = self._database.timeout_s
                self._pool = ConnectionPool(
                    # Plans differ with the filter and the size of a namespace, so none is prepared for all of them.
                    kwargs={**self._database.arguments(timeout_s), "autocommit": True, "prepare_threshold": None},
                    min_size=1,
                    max_size=self._connections,
                    timeout=timeout_s,
                    reconnect_timeout=timeout_s,
                    open=True,
                    check=ConnectionPool.check_connection,
                )
            return self._pool


class DatabaseConnection:
    """Implement ``Connection``."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        with _failures():
            return self._connection.execute(sql, _stored(parameters)).fetchall()

    def run(self, sql: str, parameters: Sequence[object] = ()) -> int:
        with _failures():
            return self._connection.execute(sql, _stored(parameters)).rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with _failures(), self._connection.transaction():
            yield

    def lock(self, number: int, wait_s: float) -> bool:
        from psycopg.errors import LockNotAvailable

        with _failures():
            if wait_s <= 0:
                found = self._connection.execute("SELECT pg_try_advisory_lock(%s)", (number,)).fetchone()
                return found is not None and bool(found[0])
            wait = str(max(_MIN_LOCK_MS, round(wait_s * 1000)))
            try:
                self._connection.execute("SELECT set_config('lock_timeout', %s, false)", (wait,))
                self._connection.execute("SELECT pg_advisory_lock(%s)", (number,))
            except LockNotAvailable:
                return False
            self._connection.execute("SELECT set_config('lock_timeout', '0', false)")
            return True

    def close(self) -> None:
        self._connection.close()


def _stored(parameters: Sequence[object]) -> list[Any]:
    return [_without_nul(value) for value in parameters]


def _without_nul(value: object) -> object:
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in value else value
    if isinstance(value, list):
        return [_without_nul(part) for part in value] if value and isinstance(value[0], str) else value
    return value


@contextmanager
def _failures() -> Iterator[None]:
    """Raise ``DatabaseUnavailable`` for the library's errors."""
    import psycopg
    from psycopg_pool import PoolClosed, PoolTimeout

    try:
        yield
    except (psycopg.Error, PoolTimeout, PoolClosed) as error:
        # Its text may cite a row or the address: the log has the kind alone.
        log.error("database of shared passages: %s %s", type(error).__name__, getattr(error, "sqlstate", None) or "")
        raise DatabaseUnavailable(_UNAVAILABLE) from error
