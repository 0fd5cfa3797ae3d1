"""Keep the store of each namespace as an SQLite file in a folder of its own, and read it.

The folder ``NAME/`` has ``passages.sqlite`` and, beside it, the indices of the namespace. With one folder each, a
deletion is one rename, a copy is the copy of a folder, and a damaged namespace harms no other.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from retrieval.corpus.items import ParsedDocument, SkippedRecord, Span
from retrieval.corpus.store import schema
from retrieval.corpus.store.base import (
    FILE_ID,
    TARGETS,
    Counts,
    JournalEntry,
    PassageFilter,
    StoredDocument,
    Target,
    is_name,
    row_filter_of,
)
from retrieval.corpus.store.schema import STORE_NAME, document_of, passage_of, unpack
from retrieval.corpus.store.writer import SqlitePassageWriter, create_store
from retrieval.errors import NAMESPACE_EXISTS, CorpusError, NamespaceBusy, NamespaceDamaged, NamespaceUnknown
from retrieval.index.base import Ids, RowFilter
from retrieval.passages import Document, Passage
from retrieval.storage.database import ReadPool
from retrieval.storage.files import build_lock, create_draft, make_folder, recover, recover_all, replace_folder

if TYPE_CHECKING:
    from retrieval.corpus.chunking import Chunker

_CONNECTIONS: Final = 4
_BUSY_S: Final = 30.0
_BATCH: Final = 500
# The part of a path behind its last slash; only files of their own have a name.
_NAME: Final = (
    f"CASE WHEN d.document_id LIKE '{FILE_ID}%' "
    "THEN replace(d.provenance, rtrim(d.provenance, replace(d.provenance, '/', '')), '') ELSE '' END"
)
_HAS_WORD: Final = f"instr(lower(d.document_id || char(10) || {_NAME} || char(10) || {{title}}), lower(?)) > 0".format(
    title="coalesce(json_extract(d.body, '$.title'), '')"
)
_OF_DOCUMENT: Final = "FROM passage WHERE document = d.number UNION ALL SELECT {0} FROM twin WHERE document = d.number"
_DOCUMENT: Final = (
    f"d.number, d.body, (SELECT count(*) FROM (SELECT 1 {_OF_DOCUMENT.format(1)})), "
    f"(SELECT coalesce(max(page), 0) FROM (SELECT page {_OF_DOCUMENT.format('page')}))"
)
_TABLES: Final = ("passage", "twin")
_PASSAGE: Final = "p.passage_id, p.start, p.stop, p.section, p.page"


class SqlitePassageStore:
    """Read a store through a pool of connections; counts are computed once in each generation."""

    def __init__(self, path: Path, namespace: str) -> None:
        """Open the store.

        ``namespace``: its name, of which the ids of passages are made.

        Raises:
            NamespaceDamaged: the file is missing, not a store, or of another schema.
        """
        self.path = path
        self._namespace = namespace
        self._lock = threading.Lock()
        self._counts: tuple[int, Counts] | None = None
        try:
            self._inode = path.stat().st_ino  # before the file is opened, so that it is never that of a later one
            self._pool = ReadPool(path, _CONNECTIONS, busy_s=_BUSY_S)
        except (OSError, sqlite3.Error) as error:
            raise NamespaceDamaged(f"{path}: not a store of passages ({error})") from error
        try:
            version = self.meta("schema")
        except NamespaceDamaged as error:
            self.close()
            raise NamespaceDamaged(f"{path}: not a store of passages ({error})") from error
        if version != schema.SCHEMA_VERSION:
            self.close()
            raise NamespaceDamaged(f"{path}: schema {version or 'unknown'}, {schema.SCHEMA_VERSION} needed")

    def close(self) -> None:
        self._pool.close()

    def is_replaced(self) -> bool:
        try:
            return self.path.stat().st_ino != self._inode
        except OSError:
            return True

    def writer(self, chunker: Chunker, targets: Sequence[Target] = TARGETS) -> SqlitePassageWriter:
        return SqlitePassageWriter(self.path, self._namespace, chunker, targets)

    def _query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return all its rows.

        Raises:
            NamespaceDamaged: SQLite cannot read its file.
        """
        with self._pool.acquire() as connection:
            try:
                return connection.execute(sql, parameters).fetchall()
            except sqlite3.DatabaseError as error:
                raise NamespaceDamaged(f"{self.path}: cannot be read ({error})") from error

    def meta(self, key: str) -> str:
        rows = self._query("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else ""

    def generation(self) -> int:
        return int(self.meta("generation") or 0)

    def counts(self) -> Counts:
        generation = self.generation()
        with self._lock:
            if self._counts is not None and self._counts[0] == generation:
                return self._counts[1]
        (numbers,) = self._query(
            "SELECT (SELECT count(*) FROM document), (SELECT count(*) FROM passage), (SELECT count(*) FROM twin)"
        )
        pending, gone = Counter[str](dict.fromkeys(TARGETS, 0)), Counter[str](dict.fromkeys(TARGETS, 0))
        for target, entries, deletions in self._query(
            "SELECT target, count(*), sum(gone) FROM pending GROUP BY target"
        ):
            pending[target], gone[target] = int(entries), int(deletions)
        counts = Counts(int(numbers[0]), int(numbers[1]), int(numbers[2]), pending, gone)
        with self._lock:
            self._counts = (generation, counts)
        return counts

    def get(self, ids: Sequence[int]) -> list[tuple[Passage, Document]]:
        found: dict[int, tuple[Passage, Document]] = {}
        for first in range(0, len(ids), _BATCH):
            batch = [int(number) for number in ids[first : first + _BATCH]]
            where = f"p.passage_id IN ({','.join('?' * len(batch))})"
            found |= {passage.passage_id: (passage, document) for passage, document in self._joined(where, batch)}
        return [found[number] for number in ids if number in found]

    def _joined(self, where: str, parameters: Sequence[object]) -> Iterator[tuple[Passage, Document]]:
        rows, bodies = self._snapshot(
            f"SELECT p.document, {_PASSAGE} FROM passage p WHERE {where} ORDER BY p.document, p.start", parameters
        )
        texts = {number: (document_of(body), content) for number, body, content in bodies}
        last, text = None, ""
        for number, *cut in rows:
            document, content = texts[number]
            if number != last:
                last, text = number, unpack(content)
            yield passage_of((cut[0], cut[1], cut[2], cut[3], cut[4]), document, text), document

    def _snapshot(self, sql: str, parameters: Sequence[object]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Return rows of passages and of their documents as of the same moment.

        Offsets of a passage are valid only in that text.
        """
        with self._pool.acquire() as connection:
            try:
                connection.execute("BEGIN")
                rows = connection.execute(sql, parameters).fetchall()
                numbers = list(dict.fromkeys(row[0] for row in rows))
                marks = ",".join("?" * len(numbers))
                found = connection.execute(
                    f"SELECT number, body, content FROM document WHERE number IN ({marks})", numbers
                )
                return rows, found.fetchall()
            except sqlite3.DatabaseError as error:
                raise NamespaceDamaged(f"{self.path}: cannot be read ({error})") from error
            finally:
                connection.rollback()

    def passages(self, where: PassageFilter | None = None) -> Iterator[Passage]:
        low = 0
        while True:
            rows = self._query("SELECT number FROM document WHERE number > ? ORDER BY number LIMIT 200", (low,))
            if not rows:
                return
            high = rows[-1][0]
            for passage, document in self._joined("p.document > ? AND p.document <= ?", (low, high)):
                if where is None or where.admits(document):
                    yield passage
            low = high

    def parsed_documents(self) -> Iterator[tuple[ParsedDocument, bytes]]:
        low = 0
        columns = "number, body, content, spans, whole, digest"
        sql = f"SELECT {columns} FROM document WHERE number > ? ORDER BY number LIMIT 50"
        while rows := self._query(sql, (low,)):
            low = rows[-1][0]
            for _, body, content, spans, whole, digest in rows:
                text = unpack(content)
                yield ParsedDocument(document_of(body), text, schema.spans_of(spans), whole=bool(whole)), bytes(digest)

    def spans(self, document_id: str) -> list[Span]:
        columns = "start, stop, section, page"
        sql = " UNION ALL ".join(
            f"SELECT {columns} FROM {table} WHERE document = (SELECT number FROM document WHERE document_id = ?)"
            for table in ("passage", "twin")
        )
        return [Span(*row) for row in self._query(f"{sql} ORDER BY start, stop", (document_id, document_id))]

    def document(self, document_id: str) -> tuple[Document, str] | None:
        rows = self._query("SELECT body, content FROM document WHERE document_id = ?", (document_id,))
        return (document_of(rows[0][0]), unpack(rows[0][1])) if rows else None

    def documents(self, words: Sequence[str], limit: int, before: int = 0) -> list[StoredDocument]:
        condition, parameters = _having(words)
        if before:
            condition, parameters = f"{condition} AND d.number < ?", [*parameters, before]
        sql = f"SELECT {_DOCUMENT} FROM document d WHERE {condition} ORDER BY d.number DESC LIMIT ?"
        return [self._stored(row) for row in self._query(sql, [*parameters, limit])]

    def count_documents(self, words: Sequence[str]) -> int:
        if not words:
            return self.counts().documents
        condition, parameters = _having(words)
        return int(self._query(f"SELECT count(*) FROM document d WHERE {condition}", parameters)[0][0])

    def stored_document(self, document_id: str) -> StoredDocument | None:
        rows = self._query(f"SELECT {_DOCUMENT} FROM document d WHERE d.document_id = ?", (document_id,))
        return self._stored(rows[0]) if rows else None

    def _stored(self, row: tuple[Any, ...]) -> StoredDocument:
        number, body, passages, pages = row
        sql = (
            "SELECT p.target, count(*) FROM passage s JOIN pending p ON p.passage_id = s.passage_id AND p.target = ? "
            "WHERE s.document = ? GROUP BY p.target"
        )
        targets = self._waiting_targets()
        waiting = {name: int(count) for target in targets for name, count in self._query(sql, (target, number))}
        return StoredDocument(number, document_of(body), int(passages), int(pages), waiting)

    def _waiting_targets(self) -> list[str]:
        """Return the indices with entries in the journal, one look-up for each: DISTINCT would read all entries."""
        found: list[str] = []
        sql = "SELECT min(target) FROM pending WHERE target > ?"
        while (name := self._query(sql, (found[-1] if found else "",))[0][0]) is not None:
            found.append(str(name))
        return found

    def document_passages(self, document_id: str, limit: int, offset: int = 0) -> list[Passage]:
        found = self.document(document_id)
        if found is None:
            return []
        columns, number = (
            "passage_id, start, stop, section, page",
            "(SELECT number FROM document WHERE document_id = ?)",
        )
        union = " UNION ALL ".join(f"SELECT {columns} FROM {name} WHERE document = {number}" for name in _TABLES)
        sql = f"{union} ORDER BY start, stop LIMIT ? OFFSET ?"
        rows = self._query(sql, (document_id, document_id, limit, offset))
        document, text = found
        return [passage_of((row[0], row[1], row[2], row[3], row[4]), document, text) for row in rows]

    def files_named(self, name: str) -> list[str]:
        sql = f"SELECT d.document_id FROM document d WHERE {_NAME} = ? AND ? <> '' ORDER BY d.number"
        return [str(document_id) for (document_id,) in self._query(sql, (name, name))]

    def from_file(self, file: str) -> list[str]:
        sql = "SELECT document_id FROM document WHERE provenance = ? OR substr(provenance, 1, ?) = ? ORDER BY number"
        return [str(document_id) for (document_id,) in self._query(sql, (file, len(file) + 1, f"{file}/"))]

    def passage_ids(self) -> Ids:
        rows = self._query("SELECT passage_id FROM passage ORDER BY document, start, passage_id")
        return np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))

    def documents_of(self, papers: Sequence[str]) -> list[str]:
        marks = ",".join("?" * len(papers))
        sql = (
            f"SELECT document_id FROM document WHERE document_id IN ({marks}) "
            f"OR json_extract(body, '$.record') IN ({marks}) ORDER BY number"
        )
        return [str(document_id) for (document_id,) in self._query(sql, (*papers, *papers))]

    def document_ids(self, prefix: str = "") -> Iterator[str]:
        low = prefix
        sql = "SELECT document_id FROM document WHERE document_id > ? ORDER BY document_id LIMIT 1000"
        while rows := self._query(sql, (low,)):
            for (low,) in rows:
                if not low.startswith(prefix):
                    return
                yield low

    def known(self, document_ids: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for first in range(0, len(document_ids), _BATCH):
            batch = document_ids[first : first + _BATCH]
            sql = f"SELECT document_id FROM document WHERE document_id IN ({','.join('?' * len(batch))})"
            found |= {str(row[0]) for row in self._query(sql, batch)}
        return found

    def also_in(self, passage_id: int) -> list[Document]:
        sql = (
            "SELECT d.body FROM passage p JOIN twin t ON t.same = p.same JOIN document d ON d.number = t.document "
            "WHERE p.passage_id = ? ORDER BY d.number"
        )
        return [document_of(body) for (body,) in self._query(sql, (passage_id,))]

    def pending(self, target: Target, limit: int, after: int = 0) -> list[JournalEntry]:
        sql = "SELECT passage_id, gone FROM pending WHERE target = ? AND passage_id > ? ORDER BY passage_id LIMIT ?"
        return [
            JournalEntry(int(row[0]), bool(row[1]), int(row[0])) for row in self._query(sql, (target, after, limit))
        ]

    def waiting(self, target: Target, limit: int) -> int:
        sql = "SELECT count(*) FROM (SELECT 1 FROM pending WHERE target = ? LIMIT ?)"
        return int(self._query(sql, (target, limit))[0][0])

    def is_finished(self, source: tuple[str, str]) -> bool:
        return bool(self._query("SELECT 1 FROM source WHERE digest = ? AND reader = ?", source))

    def passed(self, limit: int = 1000) -> list[SkippedRecord]:
        sql = "SELECT file, line, reason FROM passed ORDER BY file, line LIMIT ?"
        return [SkippedRecord(*row) for row in self._query(sql, (limit,))]

    def faults(self) -> Iterator[str]:
        for (found,) in self._query("PRAGMA quick_check(20)"):
            if found != "ok":
                yield f"store: {found}"
        for table in ("passage", "twin"):
            sql = f"SELECT count(*) FROM {table} WHERE document NOT IN (SELECT number FROM document)"
            if lost := self._query(sql)[0][0]:
                yield f"store: {lost} rows of {table} have no document"
        sql = "SELECT count(*) FROM twin WHERE same NOT IN (SELECT same FROM passage)"
        if lost := self._query(sql)[0][0]:
            yield f"store: {lost} passages are kept as twins of none"

    def row_filter(self, where: PassageFilter) -> RowFilter | None:
        return row_filter_of(where, self._ids)

    def _ids(self, where: PassageFilter) -> np.ndarray[Any, np.dtype[np.int64]]:
        conditions, parameters = list[str](), list[object]()
        for names, joined, sign in ((where.types, " OR ", ""), (where.without_types, " AND ", "NOT ")):
            if names:
                conditions.append("(" + joined.join(f"{sign}instr(d.types, ?) > 0" for _ in names) + ")")
                parameters += [f"|{name}|" for name in names]
        condition = " AND ".join(conditions) or "1"
        sql = f"SELECT p.passage_id FROM document d JOIN passage p ON p.document = d.number WHERE {condition}"
        if where.documents is None:
            found = [row[0] for row in self._query(sql, parameters)]
        else:
            document_ids = sorted(where.documents)
            found = []
            for first in range(0, len(document_ids), _BATCH):
                batch = document_ids[first : first + _BATCH]
                marks = ",".join("?" * len(batch))
                found += [r[0] for r in self._query(f"{sql} AND d.document_id IN ({marks})", [*parameters, *batch])]
        return np.sort(np.array(found, dtype=np.int64))


def _having(words: Sequence[str]) -> tuple[str, list[object]]:
    """Return the condition on documents that have each of the words in id, name or title, with its parameters."""
    return " AND ".join(["1", *(_HAS_WORD for _ in words)]), list(words)


@contextlib.contextmanager
def locked(folder: Path, wait_s: float, busy: str) -> Iterator[None]:
    """Lock the name of a namespace's folder, which need not exist, against other threads and processes.

    Raises:
        NamespaceBusy: another one holds the lock after ``wait_s``; with the message ``busy``.
        NamespaceDamaged: the folder above cannot be written.
    """
    lock = build_lock(folder, wait_s)
    try:
        make_folder(folder.parent)
        lock.__enter__()
    except TimeoutError:
        raise NamespaceBusy(busy) from None
    except OSError as error:
        raise NamespaceDamaged(f"{folder.parent}: cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


class SqlitePassageStores:
    """Manage the stores below one folder, which need not exist yet.

    Not for network file systems, on which SQLite's write-ahead log does not work.
    """

    own_targets: Final[frozenset[Target]] = frozenset()

    def __init__(self, root: Path) -> None:
        self._root = root

    def own_lock(self, name: str) -> contextlib.AbstractContextManager[None]:
        return self.lock(name)

    def identity(self, name: str) -> tuple[int, int] | None:
        try:
            status = (self._root / name).stat()
        except OSError:
            return None
        return status.st_ino, status.st_ctime_ns

    def names(self) -> list[str]:
        if not self._root.is_dir():
            return []
        return sorted(path.name for path in self._root.iterdir() if is_name(path.name) and path.is_dir())

    def exists(self, name: str) -> bool:
        return (self._root / name).is_dir()

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        target = self._root / name
        with locked(target, 0.0, f"namespace {name} is being changed by another process"):
            recover(target)
            yield

    @contextlib.contextmanager
    def creating(
        self, name: str, meta: Mapping[str, str], chunker: Chunker, targets: Sequence[Target]
    ) -> Iterator[SqlitePassageWriter]:
        target = self._root / name
        with self.lock(name):
            if target.exists():
                raise CorpusError(f"there is a namespace {name} already", NAMESPACE_EXISTS)
            with self._writes(target):
                draft = create_draft(target)
            try:
                with self._writes(target):
                    create_store(draft / STORE_NAME, meta)
                with contextlib.closing(SqlitePassageWriter(draft / STORE_NAME, name, chunker, targets)) as writer:
                    yield writer
                with self._writes(target):
                    replace_folder(draft, target)
            finally:
                shutil.rmtree(draft, ignore_errors=True)

    def open(self, name: str) -> SqlitePassageStore:
        return SqlitePassageStore(self._existing(name) / STORE_NAME, name)

    def sweep(self) -> list[str]:
        return recover_all(self._root)

    def delete(self, name: str) -> None:
        """Delete a namespace's folder, at once by name and soon after on the disk.

        A kill in between leaves files that ``sweep`` removes, and the next change of the name.
        """
        folder = self._existing(name)
        draft = create_draft(folder)
        folder.rename(draft / "deleted")
        shutil.rmtree(draft, ignore_errors=True)

    def _existing(self, name: str) -> Path:
        if not self.exists(name):
            raise NamespaceUnknown(f"there is no namespace {name}", param="name")
        return self._root / name

    @contextlib.contextmanager
    def _writes(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise NamespaceDamaged(f"{path}: cannot be written: {error.strerror}") from error
        except sqlite3.Error as error:
            raise NamespaceDamaged(f"{path}: cannot be written: {error}") from error
