"""Write a namespace's store in one SQLite file.

Derives what a change of a document means for passages and for the journal.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from retrieval.corpus.items import ParsedDocument, SkippedRecord, Span
from retrieval.corpus.store import schema
from retrieval.corpus.store.base import TARGETS, Change, JournalEntry, Target
from retrieval.corpus.store.schema import Cut
from retrieval.errors import NamespaceDamaged
from retrieval.storage.files import create_file

if TYPE_CHECKING:
    from retrieval.corpus.chunking import Chunker

_MAX_PASSED: Final = 10_000
_COLUMNS: Final = "passage_id, document, start, stop, section, page, same"


def create_store(path: Path, meta: Mapping[str, str]) -> None:
    """Create a store at ``path``; it is on the disk when this returns."""
    create_file(path)
    with contextlib.closing(_connect(path)) as connection, connection:
        schema.create(connection)
        rows = {"schema": schema.SCHEMA_VERSION, "generation": "0", "indexed": "0", **meta}
        connection.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30.0, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


class SqlitePassageWriter:
    """Write to a store through its single write connection."""

    def __init__(self, path: Path, namespace: str, chunker: Chunker, targets: Sequence[Target] = TARGETS) -> None:
        """Open the store for writing.

        ``targets``: the existing indices, for which the journal is written.

        Raises:
            NamespaceDamaged: the store cannot be opened for writing.
        """
        self._namespace = namespace
        self._chunker = chunker
        self._cutting = repr(chunker.chunking)
        self._targets = tuple(targets)
        try:
            self._connection = _connect(path)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise NamespaceDamaged(f"{path}: cannot be opened for writing: {error}") from error

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise NamespaceDamaged(f"the store of {self._namespace} cannot be written: {error}") from error

    def set_meta(self, key: str, value: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def put(self, reading: ParsedDocument, cuts: Sequence[Span] | None = None) -> Change:
        document = reading.document
        digest, body = schema.digest_of(reading, self._cutting), schema.document_text(document)
        sql = "SELECT number, digest, body FROM document WHERE document_id = ?"
        known = self._connection.execute(sql, (document.document_id,)).fetchone()
        if known and schema.is_older(document, known[2]):
            return "unchanged"
        if known and bytes(known[1]) == digest:
            if known[2] == body:
                return "unchanged"
            sql = "UPDATE document SET body = ?, provenance = ? WHERE number = ?"
            self._connection.execute(sql, (body, document.provenance, known[0]))
            return "noted"
        if not known:
            self._replace_file(reading)
        number = self._put_document(known[0] if known else None, reading, (digest, body))
        spans = self._chunker.cut(reading) if cuts is None else cuts
        self._put_passages(number, schema.cuts_of(self._namespace, reading, spans))
        return "changed" if known else "added"

    def _replace_file(self, reading: ParsedDocument) -> None:
        """Remove earlier versions of a file.

        The id of a file is the digest of its content, so a changed file has another id.
        """
        if not reading.document.document_id.startswith("sha256:"):
            return
        sql = "SELECT document_id FROM document WHERE document_id LIKE 'sha256:%' AND provenance = ?"
        for (old,) in self._connection.execute(sql, (reading.document.provenance,)).fetchall():
            self.remove(old)

    def _put_document(self, number: int | None, reading: ParsedDocument, sums: tuple[bytes, str]) -> int:
        document, (digest, body) = reading.document, sums
        values = (
            document.provenance, digest, document.date, schema.types_text(document.types), body,
            schema.spans_text(reading.spans), schema.pack(reading.text), reading.whole,
        )  # fmt: skip
        if number is not None:
            self._connection.execute(
                "UPDATE document SET provenance = ?, digest = ?, date = ?, types = ?, body = ?, spans = ?, "
                "content = ?, whole = ? WHERE number = ?",
                (*values, number),
            )
            return number
        row = self._connection.execute(
            "INSERT INTO document (document_id, provenance, digest, date, types, body, spans, content, whole) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING number",
            (document.document_id, *values),
        ).fetchone()
        return int(row[0])

    def _put_passages(self, number: int, cuts: dict[int, Cut]) -> None:
        """Replace the passages of document ``number``.

        Unchanged passages keep their ids and are indexed again, since title, date or types may have changed.
        """
        old = self._connection.execute("SELECT passage_id, same FROM passage WHERE document = ?", (number,)).fetchall()
        self._connection.execute("DELETE FROM twin WHERE document = ?", (number,))
        self._delete_passages([row for row in old if row[0] not in cuts], number)
        unchanged = {row[0] for row in old if row[0] in cuts}
        for cut in cuts.values():
            row = (cut.passage_id, number, cut.span.start, cut.span.end, cut.span.section, cut.span.page, cut.same)
            if cut.passage_id in unchanged:
                sql = "UPDATE passage SET section = ?, page = ? WHERE passage_id = ?"
                self._connection.execute(sql, (cut.span.section, cut.span.page, cut.passage_id))
            elif self._connection.execute("SELECT 1 FROM passage WHERE same = ?", (cut.same,)).fetchone():
                self._connection.execute(f"INSERT OR REPLACE INTO twin ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                continue
            else:
                self._connection.execute(f"INSERT INTO passage ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            self._note(cut.passage_id, gone=False)

    def _delete_passages(self, rows: Sequence[tuple[int, bytes]], number: int) -> None:
        """Delete passages of document ``number`` and replace each with another document's twin, if any."""
        for passage, same in rows:
            self._connection.execute("DELETE FROM passage WHERE passage_id = ?", (passage,))
            self._note(passage, gone=True)
            sql = "SELECT passage_id FROM twin WHERE same = ? AND document <> ? ORDER BY document LIMIT 1"
            heir = self._connection.execute(sql, (same, number)).fetchone()
            if heir:
                copied = f"INSERT INTO passage ({_COLUMNS}) SELECT {_COLUMNS} FROM twin WHERE passage_id = ?"
                self._connection.execute(copied, heir)
                self._connection.execute("DELETE FROM twin WHERE passage_id = ?", heir)
                self._note(heir[0], gone=False)

    def _note(self, passage: int, *, gone: bool) -> None:
        rows = [(target, passage, gone) for target in self._targets]
        self._connection.executemany("INSERT OR REPLACE INTO pending VALUES (?, ?, ?)", rows)

    def remove(self, document_id: str) -> bool:
        row = self._connection.execute("SELECT number FROM document WHERE document_id = ?", (document_id,)).fetchone()
        if row is None:
            return False
        self._put_passages(row[0], {})
        self._connection.execute("DELETE FROM document WHERE number = ?", row)
        return True

    def indexed(self, target: Target, entries: Sequence[JournalEntry]) -> None:
        sql = "DELETE FROM pending WHERE target = ? AND passage_id = ? AND gone = ?"
        self._connection.executemany(sql, [(target, passage, gone) for passage, gone, _ in entries])
        self._count_change()

    def mark_all_pending(self, target: Target) -> None:
        self._connection.execute("DELETE FROM pending WHERE target = ?", (target,))
        sql = "INSERT INTO pending SELECT ?, passage_id, 0 FROM passage"
        self._connection.execute(sql, (target,))
        self._count_change()

    def forget_target(self, target: Target) -> None:
        self._connection.execute("DELETE FROM pending WHERE target = ?", (target,))
        self._count_change()

    def _count_change(self) -> None:
        self._connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'indexed'")

    def record_skipped(self, passed: SkippedRecord) -> None:
        sql = "INSERT OR REPLACE INTO passed SELECT ?, ?, ? WHERE (SELECT count(*) FROM passed) < ?"
        self._connection.execute(sql, (passed.file, passed.line, passed.reason, _MAX_PASSED))

    def forget_skipped(self, file: str) -> None:
        sql = "DELETE FROM passed WHERE ? IN ('', file) OR substr(file, 1, ?) = ?"
        self._connection.execute(sql, (file, len(file) + 1, f"{file}/"))

    def forget_sources(self) -> None:
        self._connection.execute("DELETE FROM source")

    def finish_source(self, source: tuple[str, str, str], day: str, counts: dict[str, int]) -> None:
        row = (*source, day, json.dumps(counts))
        self._connection.execute("INSERT OR REPLACE INTO source VALUES (?, ?, ?, ?, ?)", row)
