"""Rank by BM25 in one SQLite file (FTS5): nothing to install, for namespaces up to some 50,000 passages.

k1 is 1.2, b 0.75, as in tantivy; a term in more than half of the passages counts next to nothing. Query time grows
with every passage that has one of the terms: a million passages take most of a second.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from retrieval.index.base import RowFilter
from retrieval.index.errors import BackendUnavailable, IndexBusy, IndexDamaged, IndexFault, IndexWriteFailed
from retrieval.lexical.bm25.folders import WriterLock, check_identity, identity, make_folder
from retrieval.lexical.bm25.terms import LexicalOptions, admits_none, rarest_terms, row_of
from retrieval.passages import Hit, Passage

KIND: Final = "fts5"
FILE: Final = "lexical.sqlite"
# The ascii tokenizer treats non-ASCII characters as part of a term, so that terms stay as they are. FTS5 stores no text
# of its own, which would be half of the file; deleting a row therefore needs its terms, which texts has deflated.
_SCHEMA: Final = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE rows (
    passage_id INTEGER PRIMARY KEY, namespace INTEGER NOT NULL, date INTEGER NOT NULL, types INTEGER NOT NULL);
CREATE TABLE texts (passage_id INTEGER PRIMARY KEY, terms BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(terms, content = '', tokenize = "ascii tokenchars '+-.'");
CREATE VIRTUAL TABLE counts USING fts5vocab(words, row);
"""


def open_fts(folder: Path, options: LexicalOptions | None = None) -> FtsIndex:
    """Open the index of ``folder``, or create it where there is none.

    Raises:
        BackendUnavailable: this Python's SQLite has no FTS5.
        IndexMismatch: another schema or tokenizer made it.
        IndexDamaged: the file cannot be read.
        IndexWriteFailed: it could not be created.
    """
    make_folder(folder, _fill)
    path = folder / FILE
    if not path.exists():
        raise IndexDamaged(f"{folder} holds other files, but no {FILE}")
    return FtsIndex(path, options or LexicalOptions())


class FtsIndex:
    """Implement ``LexicalIndex`` with SQLite.

    Searches run one after another; they see whole commits while another thread writes.
    """

    def __init__(self, path: Path, options: LexicalOptions) -> None:
        self._path = path
        self._options = options
        self._right = WriterLock(path.parent)
        self._write_lock = threading.RLock()
        self._read_lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._closed = False
        with _reading(path):
            self._reader = _connect(path)
            try:
                about = dict(self._reader.execute("SELECT key, value FROM about"))
                check_identity({key: json.loads(value) for key, value in about.items()}, KIND, path)
            except BaseException:
                self._reader.close()
                raise

    def add(self, passages: Iterable[Passage], namespace: int = 0) -> int:
        count = 0
        with self._write_lock, self._writing() as writer:
            for passage in passages:
                row = row_of(passage)
                _forget(writer, row.passage_id)
                columns = (row.passage_id, namespace, row.date, row.types)
                writer.execute("INSERT INTO rows VALUES (?, ?, ?, ?)", columns)
                writer.execute("INSERT INTO words (rowid, terms) VALUES (?, ?)", (row.passage_id, row.terms))
                deflated = zlib.compress(row.terms.encode(), 1)
                writer.execute("INSERT INTO texts VALUES (?, ?)", (row.passage_id, deflated))
                count += 1
        return count

    def delete(self, ids: Sequence[int]) -> None:
        with self._write_lock, self._writing() as writer:
            for passage_id in ids:
                _forget(writer, int(passage_id))

    def commit(self) -> None:
        with self._write_lock:
            if self._writer is None:
                return
            with self._writing() as writer:
                writer.execute("COMMIT")
                with contextlib.suppress(sqlite3.Error):
                    # What this checkpoint cannot move from the log, that of the next commit does.
                    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._drop_writer()

    def search(self, query: str, k: int, where: RowFilter | None = None) -> list[Hit]:
        if k <= 0 or admits_none(where):
            return []
        with self._read_lock, _reading(self._path):
            self._check_open()
            terms = rarest_terms(query, self._options.max_terms, self._frequency)
            if not terms:
                return []
            conditions, values = _conditions(where)
            match = " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
            found = self._reader.execute(
                "SELECT words.rowid, words.rank FROM words "
                + ("JOIN rows ON rows.passage_id = words.rowid " if conditions else "")
                + " AND ".join(["WHERE words MATCH ?", *conditions])
                + " ORDER BY words.rank, words.rowid LIMIT ?",
                (match, *values, min(k, 2**62)),
            )
            return [Hit(passage_id, -score) for passage_id, score in found]

    def __len__(self) -> int:
        with self._read_lock, _reading(self._path):
            self._check_open()
            return int(self._reader.execute("SELECT count(*) FROM rows").fetchone()[0])

    def verify(self) -> None:
        """Read the whole file and check its integrity.

        Raises:
            IndexDamaged: SQLite finds a fault in it.
        """
        with self._read_lock, _reading(self._path):
            self._check_open()
            told = [row[0] for row in self._reader.execute("PRAGMA integrity_check(5)")]
            if told != ["ok"]:
                raise IndexDamaged(f"{self._path}: {'; '.join(told)}")

    def close(self) -> None:
        """Close the index and discard uncommitted changes."""
        with self._write_lock, self._read_lock:
            self._drop_writer()
            self._reader.close()
            self._closed = True

    def _frequency(self, term: str) -> int:
        found = self._reader.execute("SELECT doc FROM counts WHERE term = ?", (term,)).fetchone()
        return int(found[0]) if found else 0

    def _check_open(self) -> None:
        if self._closed:
            raise IndexFault(f"the index {self._path} is closed")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Take the writer lock, once until the next commit, and run the block.

        An error discards all changes since the last commit.
        """
        self._check_open()
        self._right.take()
        try:
            if self._writer is None:
                self._writer = _connect(self._path)
                self._writer.execute("BEGIN IMMEDIATE")
            yield self._writer
        except sqlite3.Error as error:
            self._drop_writer()
            if "locked" in str(error):
                raise IndexBusy(f"{self._path} is being written to") from error
            raise IndexWriteFailed(f"{self._path}: {error}") from error
        except BaseException:
            self._drop_writer()
            raise

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            with contextlib.suppress(sqlite3.Error):
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
            writer.close()
        self._right.release()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _forget(writer: sqlite3.Connection, passage_id: int) -> None:
    found = writer.execute("SELECT terms FROM texts WHERE passage_id = ?", (passage_id,)).fetchone()
    if found is not None:
        terms = zlib.decompress(found[0]).decode()
        writer.execute("INSERT INTO words (words, rowid, terms) VALUES ('delete', ?, ?)", (passage_id, terms))
        writer.execute("DELETE FROM texts WHERE passage_id = ?", (passage_id,))
        writer.execute("DELETE FROM rows WHERE passage_id = ?", (passage_id,))


def _conditions(where: RowFilter | None) -> tuple[list[str], list[Any]]:
    conditions: list[str] = []
    values: list[Any] = []
    if where is None:
        return conditions, values

    def add(condition: str, *given: Any) -> None:
        conditions.append(condition)
        values.extend(given)

    if where.namespaces is not None:
        add("rows.namespace IN (SELECT value FROM json_each(?))", json.dumps(sorted(where.namespaces)))
    if where.ids is not None:
        add("rows.passage_id IN (SELECT value FROM json_each(?))", json.dumps(where.ids.tolist()))
    if where.types:
        add("rows.types & ? != 0", where.types)
    if where.without_types:
        add("rows.types & ? = 0", where.without_types)
    if where.date_from or where.date_to:
        add("rows.date >= ?", max(where.date_from, 1))
    if where.date_to:
        add("rows.date <= ?", where.date_to)
    return conditions, values


def _fill(folder: Path) -> None:
    try:
        with contextlib.closing(_connect(folder / FILE)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
            about = [(key, json.dumps(value)) for key, value in identity(KIND).items()]
            connection.executemany("INSERT INTO about VALUES (?, ?)", about)
    except sqlite3.Error as error:
        if "fts5" in str(error):
            raise BackendUnavailable("this Python's SQLite was built without FTS5") from error
        raise OSError(str(error)) from error


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, ValueError) as error:
        raise IndexDamaged(f"{path}: {error}") from error
