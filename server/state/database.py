"""Connect to the PostgreSQL database of shared state, and bring its tables up to date.

The stores of passages take blocking connections, as searches and jobs run on threads; all others an event loop's.
psycopg and yoyo are imported here and in this package's stores alone. No error that a client sees names the address.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from models.errors import Fault
from retrieval.errors import STATE_UNAVAILABLE, DatabaseUnavailable
from retrieval.storage.database import Row
from server.settings.loading import SettingsInvalid

if TYPE_CHECKING:
    import psycopg
    from psycopg import AsyncConnection, Connection
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

log = logging.getLogger(__name__)
_MIGRATIONS: Final = Path(__file__).parent / "migrations"
# The number of the advisory lock under which one of several servers that start changes the tables.
_MIGRATION_LOCK: Final = 0x41726F77
_MIGRATION_WAIT_S: Final = 60
# A statement of a session: an index of a large namespace is built by one.
_LONG_S: Final = 6 * 3600.0
_MIN_LOCK_MS: Final = 1
_RETRY_S: Final = 0.5
_UNAVAILABLE: Final = "the database of shared passages does not answer"


class Database:
    """Give connections to one database; one instance per process.

    ``url`` as libpq takes it. A statement, and the wait for a connection, take at most ``timeout_s`` each.
    """

    def __init__(self, url: str, *, connections: int = 8, timeout_s: float = 5.0) -> None:
        """Describe the database; nothing is connected yet.

        Raises:
            SettingsInvalid: the libraries are not installed, or the address cannot be read.
        """
        if find_spec("psycopg") is None or find_spec("psycopg_pool") is None or find_spec("yoyo") is None:
            raise SettingsInvalid("state.url: needs the extra postgres: pip install 'arrowhead[postgres]'")
        self._parameters = _parameters(url)
        self._connections = connections
        self.timeout_s = timeout_s
        self._pool: AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]] | None = None
        self._opening = asyncio.Lock()

    def migrate(self) -> None:
        """Create the tables, or bring those of an earlier version up to date; safe from several processes at once.

        Raises:
            STATE_UNAVAILABLE: the database cannot be reached, or refuses.
        """
        from yoyo import read_migrations
        from yoyo.connections import parse_uri

        # yoyo's own lock is a row, which a killed process would leave behind; a session's lock ends with it.
        with (
            self.connection(statement_timeout_s=_MIGRATION_WAIT_S) as connection,
            _failures("state", STATE_UNAVAILABLE),
        ):
            connection.execute("SELECT pg_advisory_lock(%s)", (_MIGRATION_LOCK,))
            backend = _backend_class()(parse_uri(self._yoyo_uri()), "arrowhead_migrations")
            try:
                backend.init_database()
                migrations = read_migrations(str(_MIGRATIONS))
                backend.apply_migrations(backend.to_apply(migrations))
            finally:
                backend.connection.close()

    @contextmanager
    def connection(self, statement_timeout_s: float | None = None) -> Iterator[Connection[tuple[Any, ...]]]:
        """Open a connection of its own, in autocommit mode; blocks.

        Raises:
            STATE_UNAVAILABLE: the database cannot be reached, or refuses.
        """
        import psycopg

        with _failures("state", STATE_UNAVAILABLE):
            connection = psycopg.connect(**self.arguments(statement_timeout_s or self.timeout_s), autocommit=True)
        with connection, _failures("state", STATE_UNAVAILABLE):
            yield connection

    @asynccontextmanager
    async def pooled(self) -> AsyncIterator[AsyncConnection[tuple[Any, ...]]]:
        """Lend a connection of the pool for one transaction, which an exception rolls back.

        Raises:
            STATE_UNAVAILABLE: the database cannot be reached, or refuses, or every connection is lent for too long.
        """
        pool = await self._opened()
        with _failures("state", STATE_UNAVAILABLE):
            async with pool.connection() as connection:
                yield connection

    @asynccontextmanager
    async def listening(self, channel: str) -> AsyncIterator[AsyncConnection[tuple[Any, ...]]]:
        """Open a connection of its own that receives the notices of a channel, in autocommit mode.

        Raises:
            STATE_UNAVAILABLE: the database cannot be reached, or refuses.
        """
        import psycopg
        from psycopg import sql

        with _failures("state", STATE_UNAVAILABLE):
            connection = await psycopg.AsyncConnection.connect(**self.arguments(self.timeout_s), autocommit=True)
            async with connection:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                yield connection

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def _opened(self) -> AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]]:
        from psycopg_pool import AsyncConnectionPool

        async with self._opening:
            if self._pool is None:
                pool = AsyncConnectionPool(
                    kwargs=self.arguments(self.timeout_s),
                    min_size=1,
                    max_size=self._connections,
                    timeout=self.timeout_s,
                    # Beyond it the library waits longer and longer, also when the database is back.
                    reconnect_timeout=self.timeout_s,
                    open=False,
                    check=AsyncConnectionPool.check_connection,
                )
                await pool.open()
                self._pool = pool
        return self._pool

    def arguments(self, statement_timeout_s: float) -> dict[str, Any]:
        """Return what psycopg connects with."""
        return self._parameters | {
            "connect_timeout": max(2, round(self.timeout_s)),
            "options": f"-c statement_timeout={round(statement_timeout_s * 1000)}",
            "application_name": "arrowhead",
        }

    def _yoyo_uri(self) -> str:
        arguments = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in self._parameters.items())
        return f"postgresql+psycopg:///{quote(str(self._parameters.get('dbname', '')), safe='')}?{arguments}"


def is_storable(text: str) -> bool:
    """Return whether a text of the database can be this one: none has a NUL."""
    return "\0" not in text


def _backend_class() -> type[Any]:
    from yoyo.backends.core.postgresql import PostgresqlPsycopgBackend

    class Backend(PostgresqlPsycopgBackend):  # type: ignore[misc]
        """Log migrations without asking a name server for this machine's name."""

        def get_log_data(self, migration: Any = None, operation: str = "apply") -> dict[str, Any]:
            return {
                "id": str(uuid.uuid4()),
                "migration_id": migration.id if migration else None,
                "migration_hash": migration.hash if migration else None,
                "username": "arrowhead",
                "hostname": "",
                "created_at_utc": datetime.now(UTC).replace(tzinfo=None),
                "operation": operation,
            }

    return Backend


def _parameters(url: str) -> dict[str, Any]:
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        return dict(conninfo_to_dict(url))
    except ProgrammingError:
        # libpq's message cites the address.
        raise SettingsInvalid("state.url: is no address of PostgreSQL: postgresql://user@host/database") from None


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
            with _failures("passages", DatabaseUnavailable.fault), pool.connection() as connection:
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

        with _failures("passages", DatabaseUnavailable.fault):
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
        self._is_locking = False

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        with _failures("passages", DatabaseUnavailable.fault):
            return self._connection.execute(sql, _stored(parameters)).fetchall()

    def run(self, sql: str, parameters: Sequence[object] = ()) -> int:
        with _failures("passages", DatabaseUnavailable.fault):
            return self._connection.execute(sql, _stored(parameters)).rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with _failures("passages", DatabaseUnavailable.fault), self._connection.transaction():
            yield

    def lock(self, number: int, wait_s: float) -> bool:
        from psycopg.errors import LockNotAvailable

        with _failures("passages", DatabaseUnavailable.fault):
            if wait_s <= 0:
                found = self._connection.execute("SELECT pg_try_advisory_lock(%s)", (number,)).fetchone()
                self._is_locking = found is not None and bool(found[0])
                return self._is_locking
            wait = str(max(_MIN_LOCK_MS, round(wait_s * 1000)))
            try:
                self._connection.execute("SELECT set_config('lock_timeout', %s, false)", (wait,))
                self._connection.execute("SELECT pg_advisory_lock(%s)", (number,))
            except LockNotAvailable:
                return False
            self._connection.execute("SELECT set_config('lock_timeout', '0', false)")
            self._is_locking = True
            return True

    def close(self) -> None:
        """Close the connection; a lock is free at once, not only when PostgreSQL has noticed the end."""
        from psycopg import Error

        if self._is_locking and not self._connection.closed:
            with suppress(Error):
                self._connection.execute("SELECT pg_advisory_unlock_all()")
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
def _failures(what: str, fault: Fault) -> Iterator[None]:
    """Raise ``DatabaseUnavailable`` with ``fault`` for the library's errors."""
    import psycopg
    from psycopg_pool import PoolClosed, PoolTimeout

    try:
        yield
    except (psycopg.Error, PoolTimeout, PoolClosed) as error:
        # Its text may cite a row or the address: the log has the kind alone.
        log.error("database of shared %s: %s %s", what, type(error).__name__, getattr(error, "sqlstate", None) or "")
        raise DatabaseUnavailable(f"the database of shared {what} does not answer", fault) from error
