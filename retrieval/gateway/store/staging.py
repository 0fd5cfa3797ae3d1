"""Store what an import has read so far in a file beside the store, so that a killed import can resume.

Rows are ready to be written (indexed, encoded), in the file's order. Progress is committed together with them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from retrieval.formats.records import Database, Link, Organism, Removal
from retrieval.gateway.store.indexing import RankFeatures
from retrieval.gateway.store.writer import Row
from retrieval.storage.private_files import create_file, make_folder

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS staged (n INTEGER PRIMARY KEY, op TEXT NOT NULL, db TEXT, uid INTEGER, key TEXT,
    weight INTEGER, live INTEGER, human INTEGER, number INTEGER, body BLOB, columns TEXT);
CREATE TABLE IF NOT EXISTS progress (id INTEGER PRIMARY KEY CHECK (id = 0), items INTEGER NOT NULL,
    entries INTEGER NOT NULL, bad INTEGER NOT NULL, read_all INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS bad (line INTEGER NOT NULL, reason TEXT NOT NULL);
INSERT OR IGNORE INTO progress VALUES (0, 0, 0, 0, 0);
"""
Operation = Row | Link | Removal | Organism


@dataclass(slots=True)
class Counts:
    """Count the items of an import.

    ``items`` were read, of which ``entries`` are records, links or removals and ``bad`` were skipped.
    """

    items: int = 0
    entries: int = 0
    bad: int = 0
    read_all: bool = False


class Staging:
    """Hold one import's rows.

    Serves one process, one thread at a time; ``commit`` makes everything since the previous one permanent.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        make_folder(path.parent)
        create_file(path)
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.executescript(_SCHEMA)
        items, entries, bad, read_all = self._connection.execute(
            "SELECT items, entries, bad, read_all FROM progress"
        ).fetchone()
        self.counts = Counts(items, entries, bad, bool(read_all))
        self._waiting: list[tuple[Any, ...]] = []
        self._bad: list[tuple[int, str]] = []

    def add(self, operation: Operation) -> None:
        self._waiting.append(_as_row(operation))

    def add_bad(self, line: int, reason: str) -> None:
        self._bad.append((line, reason))

    def commit(self) -> None:
        self._connection.execute("BEGIN")
        marks = ", ".join("?" * 10)
        names = "op, db, uid, key, weight, live, human, number, body, columns"
        self._connection.executemany(f"INSERT INTO staged ({names}) VALUES ({marks})", self._waiting)
        self._connection.executemany("INSERT INTO bad VALUES (?, ?)", self._bad)
        counts = self.counts
        self._connection.execute(
            "UPDATE progress SET items = ?, entries = ?, bad = ?, read_all = ?",
            (counts.items, counts.entries, counts.bad, counts.read_all),
        )
        self._connection.execute("COMMIT")
        self._waiting, self._bad = [], []

    def num_operations(self) -> int:
        return int(self._connection.execute("SELECT coalesce(max(n), 0) FROM staged").fetchone()[0])

    def operations(self) -> Iterator[Operation]:
        """Yield all operations, in the order they were added."""
        names = "op, db, uid, key, weight, live, human, number, body, columns"
        for row in self._connection.execute(f"SELECT {names} FROM staged ORDER BY n"):
            yield _from_row(row)

    def bad_records(self, limit: int) -> list[tuple[int, str]]:
        """Return (line, reason) of the first bad records."""
        return self._connection.execute("SELECT line, reason FROM bad ORDER BY rowid LIMIT ?", (limit,)).fetchall()

    def close(self) -> None:
        self._connection.close()

    def discard(self) -> None:
        """Close and delete the staging file."""
        self.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)


def _as_row(operation: Operation) -> tuple[Any, ...]:
    match operation:
        case Row(db=db, uid=uid, key=key, standing=s, body=body, columns=columns):
            return ("put", db, uid, key, s.weight, s.live, s.human, s.number, body, json.dumps(columns))
        case Link(source=source, source_uid=uid, target=target, target_uid=other, own=own):
            return ("link", source, int(uid), target, None, own, None, int(other), None, None)
        case Removal(db=db, uid=uid):
            return ("remove", db, int(uid), None, None, None, None, None, None, None)
        case Organism(tax_id=tax_id, scientific_name=scientific, common_name=common, other_names=others):
            names = json.dumps([scientific, common, others])
            return ("organism", None, tax_id, None, None, None, None, None, None, names)


def _from_row(row: tuple[Any, ...]) -> Operation:
    op, db, uid, key, weight, live, human, number, body, columns = row
    if op == "put":
        return Row(
            db, uid, key, RankFeatures(weight, bool(live), bool(human), number), body, tuple(json.loads(columns))
        )
    if op == "link":
        return Link(db, str(uid), _database(key), str(number), own=bool(live))
    if op == "remove":
        return Removal(db, str(uid))
    scientific, common, others = json.loads(columns)
    return Organism(uid, scientific, common, tuple(others))


def _database(name: Any) -> Database:
    found: Database = name
    return found
