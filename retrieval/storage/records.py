"""Keep small records of keys by kind and id, in an SQLite file or in a PostgreSQL database that servers share.

The same statements run on both. What a record holds is its user's; the store knows when it expires and how much it is.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from models.errors import UnsupportedParam
from retrieval.errors import RECORDS_UNREADABLE, DatabaseUnavailable
from retrieval.storage.database import Connection, Row, SharedDatabase
from retrieval.storage.files import FILE_MODE, make_folder

log = logging.getLogger(__name__)
_T = TypeVar("_T")
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS arrowhead_records (
    place INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL,
    parent TEXT NOT NULL, tag TEXT NOT NULL, ref TEXT NOT NULL, state TEXT NOT NULL, created INTEGER NOT NULL,
    expires REAL, size INTEGER NOT NULL, body BLOB NOT NULL, UNIQUE (kind, id)
);
CREATE INDEX IF NOT EXISTS arrowhead_records_below ON arrowhead_records (kind, parent, place);
CREATE INDEX IF NOT EXISTS arrowhead_records_of_owner ON arrowhead_records (kind, owner, place);
CREATE INDEX IF NOT EXISTS arrowhead_records_by_expiry ON arrowhead_records (expires) WHERE expires IS NOT NULL;
"""
_COLUMNS: Final = "kind, id, owner, parent, tag, ref, state, created, expires, size, body"
_NEW: Final = f"INSERT INTO arrowhead_records ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
_REPLACE: Final = (
    f"{_NEW} ON CONFLICT (kind, id) DO UPDATE SET state = excluded.state, expires = excluded.expires, "
    "size = excluded.size, body = excluded.body, tag = excluded.tag"
)
_ALIVE: Final = "(expires IS NULL OR expires > %s)"
_MAX_PAGE: Final = 10_000
NOT_LISTED: Final = "after: this list has no such id, or no longer; leave after out to begin again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Hold one record.

    ``owner`` is a digest of the key. ``parent``, ``tag`` and ``ref`` name other records, by which lists are made;
    ``expires`` is Unix time, None for never. ``size`` is what counts against bounds, by default the body's bytes.
    """

    kind: str
    id: str
    owner: str
    body: bytes = b""
    parent: str = ""
    tag: str = ""
    ref: str = ""
    state: str = ""
    created: int = 0
    expires: float | None = None
    size: int = -1

    @property
    def _row(self) -> tuple[object, ...]:
        size = len(self.body) if self.size < 0 else self.size
        names = (self.kind, self.id, self.owner, self.parent, self.tag, self.ref, self.state)
        return (*names, self.created, self.expires, size, self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Select records of one kind; "" and None select all."""

    kind: str
    owner: str | None = None
    parent: str = ""
    tag: str = ""
    ref: str = ""
    state: str = ""

    @property
    def _where(self) -> tuple[str, list[object]]:
        texts = ("parent", "tag", "ref", "state")
        given = {name: value for name in texts if (value := getattr(self, name))}
        given |= {} if self.owner is None else {"owner": self.owner}
        sql = "".join(f" AND {name} = %s" for name in given)
        return f"kind = %s{sql} AND {_ALIVE}", [self.kind, *given.values()]


class Records:
    """Keep records; thread-safe, and blocking.

    Every method raises DatabaseUnavailable where the database does not answer. Expired records are as if they were not
    there, until ``remove_expired`` removes them.
    """

    def __init__(self, database: SharedDatabase, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now = now

    def put(self, record: Record) -> None:
        """Store a record in place of the one with its kind and id; owner and parent stay as they are."""
        with self._database.connection() as connection:
            connection.run(_REPLACE, record._row)

    def add(self, record: Record) -> bool:
        """Store a record where there is none of its kind and id, and return whether there was none."""
        with self._database.connection() as connection:
            return connection.run(f"{_NEW} ON CONFLICT (kind, id) DO NOTHING", record._row) > 0

    def get(self, kind: str, record_id: str) -> Record | None:
        sql = f"SELECT {_COLUMNS} FROM arrowhead_records WHERE kind = %s AND id = %s AND {_ALIVE}"
        found = self._rows(sql, (kind, record_id, self._now()))
        return _record(found[0]) if found else None

    def page(
        self, selection: Selection, *, limit: int = _MAX_PAGE, after: str = "", newest_first: bool = False
    ) -> list[Record]:
        """Return records in the order in which they were first stored; ``after`` is the id of the one before them.

        Raises:
            UnsupportedParam: there is no such record, or no longer.
        """
        where, values = selection._where
        values.append(self._now())
        if after:
            sql = "SELECT place FROM arrowhead_records WHERE kind = %s AND id = %s"
            if not (place := self._rows(sql, (selection.kind, after))):
                raise UnsupportedParam(NOT_LISTED, param="after")
            where += f" AND place {'<' if newest_first else '>'} %s"
            values += place[0]
        order = "DESC" if newest_first else "ASC"
        sql = f"SELECT {_COLUMNS} FROM arrowhead_records WHERE {where} ORDER BY place {order} LIMIT %s"
        return [_record(row) for row in self._rows(sql, (*values, limit))]

    def readable(
        self, selection: Selection, read: Callable[[Record], _T | None], *, limit: int = _MAX_PAGE, **page: Any
    ) -> list[_T]:
        """Return what ``read`` makes of a page, which is filled where damaged records are passed over."""
        found: list[_T] = []
        while (missing := limit - len(found)) > 0:
            records = self.page(selection, limit=missing, **page)
            found += [one for record in records if (one := readable(record, read)) is not None]
            if len(records) < missing:
                break
            page["after"] = records[-1].id
        return found

    def counts(self, selection: Selection) -> dict[str, int]:
        """Return how many records there are in each state."""
        where, values = selection._where
        sql = f"SELECT state, count(*) FROM arrowhead_records WHERE {where} GROUP BY state"
        return {str(state): int(number) for state, number in self._rows(sql, (*values, self._now()))}

    def total(self, selection: Selection) -> tuple[int, int]:
        """Return the number of records and the sum of their sizes."""
        where, values = selection._where
        sql = f"SELECT count(*), coalesce(sum(size), 0) FROM arrowhead_records WHERE {where}"
        ((number, size),) = self._rows(sql, (*values, self._now()))
        return int(number), int(size)

    def delete(self, kind: str, record_id: str) -> bool:
        """Delete a record and return whether it was there."""
        with self._database.connection() as connection:
            return connection.run("DELETE FROM arrowhead_records WHERE kind = %s AND id = %s", (kind, record_id)) > 0

    def delete_below(self, parent: str) -> None:
        """Delete all records, of any kind, that have this parent."""
        with self._database.connection() as connection:
            connection.run("DELETE FROM arrowhead_records WHERE parent = %s", (parent,))

    def set_expiry_below(self, parent: str, expires: float | None) -> None:
        """Set when all records that have this parent expire."""
        with self._database.connection() as connection:
            connection.run("UPDATE arrowhead_records SET expires = %s WHERE parent = %s", (expires, parent))

    def expired(self, kind: str) -> list[Record]:
        """Return expired records of one kind, the first of them."""
        sql = f"SELECT {_COLUMNS} FROM arrowhead_records WHERE kind = %s AND expires <= %s LIMIT 1000"
        return [_record(row) for row in self._rows(sql, (kind, self._now()))]

    def remove_expired(self, kinds: Sequence[str]) -> int:
        """Remove expired records of these kinds, and return how many there were."""
        marks = ", ".join(["%s"] * len(kinds))
        with self._database.connection() as connection:
            sql = f"DELETE FROM arrowhead_records WHERE kind IN ({marks}) AND expires <= %s"
            return connection.run(sql, (*kinds, self._now()))

    def close(self) -> None:
        self._database.close()

    def _rows(self, sql: str, values: Sequence[object]) -> list[Row]:
        with self._database.connection() as connection:
            return connection.rows(sql, values)


def readable(record: Record | None, read: Callable[[Record], _T | None]) -> _T | None:
    """Return what ``read`` makes of a record; of a damaged one None, and the log names it."""
    if record is None:
        return None
    try:
        return read(record)
    except (ValueError, TypeError, LookupError) as error:
        log.error("a stored %s is damaged: id=%s cause=%s", record.kind, record.id, type(error).__name__)
        return None


def _record(row: Row) -> Record:
    kind, record_id, owner, parent, tag, ref, state, created, expires, size, body = row
    record = Record(kind=kind, id=record_id, owner=owner, body=bytes(body), parent=parent, tag=tag, ref=ref)
    return replace(record, state=state, created=int(created), expires=expires, size=int(size))


class SqliteDatabase:
    """Implement ``SharedDatabase`` over one file with the records' table, which appears at the first use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        with self._lock:
            if self._connection is None:
                self._connection = self._opened()
            yield _SqliteConnection(self._connection, self._path)

    def session(self) -> Connection:
        return _SqliteConnection(self._opened(), self._path)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _opened(self) -> sqlite3.Connection:
        with _failures(self._path):
            make_folder(self._path.parent)
            self._path.touch(FILE_MODE)
            connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=10.0)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA secure_delete = ON")
            connection.executescript(_TABLE)
            return connection


class _SqliteConnection:
    """Implement ``Connection``; the marks of parameters are SQLite's."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        with _failures(self._path):
            return self._connection.execute(sql.replace("%s", "?"), tuple(parameters)).fetchall()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        with _failures(self._path):
            return self._connection.execute(sql.replace("%s", "?"), tuple(parameters)).rowcount

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with _failures(self._path), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield

    def lock(self, number: int, wait_s: float) -> bool:
        return True  # the file has one server

    def close(self) -> None:
        self._connection.close()


@contextlib.contextmanager
def _failures(path: Path) -> Iterator[None]:
    """Raise ``DatabaseUnavailable`` for what the file does not allow."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise DatabaseUnavailable(f"{path} cannot be read or written: {error}", RECORDS_UNREADABLE) from error
