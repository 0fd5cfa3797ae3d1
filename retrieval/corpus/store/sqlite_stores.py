"""Keep the store of each namespace as an SQLite file in a folder of its own, and read it.

The folder ``NAME/`` has ``passages.sqlite`` and, beside it, the indices of the namespace. With one folder each, a
deletion is one rename, a copy is the copy of a folder, and a damaged namespace harms no other.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from retrieval.corpus.store import schema
from retrieval.corpus.store.base import FILE_ID, TARGETS, JournalEntry, Target
from retrieval.corpus.store.reader import Dialect, SqlPassageReader
from retrieval.corpus.store.schema import STORE_NAME, passage_of, stored_document, stored_number, stored_text
from retrieval.corpus.store.writer import SqlitePassageWriter, create_store
from retrieval.errors import NAMESPACE_EXISTS, CorpusError, NamespaceBusy, NamespaceDamaged, NamespaceUnknown
from retrieval.passages import Document, Passage, is_namespace_name
from retrieval.storage.database import ReadPool, Row
from retrieval.storage.files import build_lock, create_draft, make_folder, recover, recover_all, replace_folder

if TYPE_CHECKING:
    from retrieval.corpus.chunking import Chunker

_CONNECTIONS: Final = 4
_BUSY_S: Final = 30.0
# Of a damaged file SQLite gives messages that are no UTF-8.
_UNREADABLE: Final = (sqlite3.Error, UnicodeDecodeError)
_DIALECT: Final = Dialect(
    document="document",
    passage="passage",
    twin="twin",
    source="source",
    passed="passed",
    mine=dict.fromkeys("dpt", "1 = 1"),
    any_of="{} IN (SELECT value FROM json_each(:{}))",
    # The part of a path behind its last slash; only files of their own have a name.
    file_name=f"CASE WHEN d.document_id LIKE '{FILE_ID}%' "
    "THEN replace(d.provenance, rtrim(d.provenance, replace(d.provenance, '/', '')), '') ELSE '' END",
    title="coalesce(json_extract(d.body, '$.title'), '')",
    record="coalesce(json_extract(d.body, '$.record'), '')",
    find="instr",
    newline="char(10)",
    binary="COLLATE BINARY",
)


class SqlitePassageStore(SqlPassageReader):
    """Read a store through a pool of connections."""

    def __init__(self, path: Path, namespace: str) -> None:
        """Open the store.

        ``namespace``: its name, of which the ids of passages are made.

        Raises:
            NamespaceDamaged: the file is missing, not a store, or of another schema.
        """
        super().__init__(_DIALECT)
        self.path = path
        self._namespace = namespace
        try:
            self._inode = path.stat().st_ino  # before the file is opened, so that it is never that of a later one
            self._pool = ReadPool(path, _CONNECTIONS, busy_s=_BUSY_S)
        except (OSError, *_UNREADABLE) as error:
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

    def _rows(self, sql: str, **values: object) -> list[Row]:
        """Run a statement and return all its rows.

        Raises:
            NamespaceDamaged: SQLite cannot read its file.
        """
        with self._pool.acquire() as connection:
            try:
                return connection.execute(sql, _bound(values)).fetchall()
            except _UNREADABLE as error:
                raise NamespaceDamaged(f"{self.path}: cannot be read ({error})") from error

    def meta(self, key: str) -> str:
        rows = self._rows("SELECT value FROM meta WHERE key = :key", key=key)
        return str(rows[0][0]) if rows else ""

    def generation(self) -> int:
        return stored_number(self.meta("generation") or 0)

    def _state(self) -> int:
        return self.generation()

    def _journal(self) -> list[Row]:
        return self._rows("SELECT target, count(*), sum(gone) FROM pending GROUP BY target")

    def _passages(self, tables: Sequence[str], where: str, **values: object) -> Iterator[tuple[Passage, Document]]:
        condition, _, order = where.partition(" ORDER BY ")
        sql = " UNION ALL ".join(
            "SELECT p.document, p.passage_id, p.start, p.stop, p.section, p.page "
            f"FROM {table} p JOIN document d ON d.number = p.document WHERE {condition}"
            for table in tables
        )
        rows, bodies = self._snapshot(self._dialect.write(f"{sql} ORDER BY {order}"), values)
        texts = {number: (stored_document(body), content) for number, body, content in bodies}
        last, text = None, ""
        for number, *cut in rows:
            document, content = texts[number]
            if number != last:
                last, text = number, stored_text(content)
            yield passage_of(cut, document, text[slice(*map(stored_number, cut[1:3]))]), document

    def _snapshot(self, sql: str, values: Mapping[str, object]) -> tuple[list[Row], list[Row]]:
        """Return rows of passages and of their documents as of the same moment.

        Offsets of a passage are valid only in that text.
        """
        with self._pool.acquire() as connection:
            try:
                connection.execute("BEGIN")
                rows = connection.execute(sql, _bound(values)).fetchall()
                numbers = list(dict.fromkeys(row[0] for row in rows))
                sql = "SELECT number, body, content FROM document WHERE number IN (SELECT value FROM json_each(:all))"
                return rows, connection.execute(sql, _bound({"all": numbers})).fetchall()
            except _UNREADABLE as error:
                raise NamespaceDamaged(f"{self.path}: cannot be read ({error})") from error
            finally:
                connection.rollback()

    def _waiting_of(self, number: int) -> dict[str, int]:
        sql = (
            "SELECT p.target, count(*) FROM passage s JOIN pending p ON p.passage_id = s.passage_id "
            "AND p.target = :target WHERE s.document = :number GROUP BY p.target"
        )
        rows = [row for target in self._targets() for row in self._rows(sql, target=target, number=number)]
        return {name: int(count) for name, count in rows}

    def _targets(self) -> list[str]:
        """Return the indices with entries in the journal, one look-up for each: DISTINCT would read all entries."""
        found: list[str] = []
        sql = "SELECT min(target) FROM pending WHERE target > :last"
        while (name := self._rows(sql, last=found[-1] if found else "")[0][0]) is not None:
            found.append(str(name))
        return found

    def pending(self, target: Target, limit: int, after: int = 0) -> list[JournalEntry]:
        sql = (
            "SELECT passage_id, gone FROM pending WHERE target = :target AND passage_id > :after "
            "ORDER BY passage_id LIMIT :most"
        )
        rows = self._rows(sql, target=target, after=after, most=limit)
        return [JournalEntry(int(row[0]), bool(row[1]), int(row[0])) for row in rows]

    def waiting(self, target: Target, limit: int) -> int:
        sql = "SELECT count(*) FROM (SELECT 1 FROM pending WHERE target = :target LIMIT :most)"
        return int(self._rows(sql, target=target, most=limit)[0][0])

    def faults(self) -> Iterator[str]:
        for (found,) in self._rows("PRAGMA integrity_check(20)"):
            if found != "ok":
                yield f"store: {found}"
        for table in ("passage", "twin"):
            sql = f"SELECT count(*) FROM {table} WHERE document NOT IN (SELECT number FROM document)"
            if lost := self._rows(sql)[0][0]:
                yield f"store: {lost} rows of {table} have no document"
        sql = "SELECT count(*) FROM twin WHERE same NOT IN (SELECT same FROM passage)"
        if lost := self._rows(sql)[0][0]:
            yield f"store: {lost} passages are kept as twins of none"


def _bound(values: Mapping[str, object]) -> dict[str, object]:
    """Return parameters with lists as JSON."""
    return {name: json.dumps(value) if isinstance(value, list) else value for name, value in values.items()}


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
        return sorted(path.name for path in self._root.iterdir() if is_namespace_name(path.name) and path.is_dir())

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
        except _UNREADABLE as error:
            raise NamespaceDamaged(f"{path}: cannot be written: {error}") from error
