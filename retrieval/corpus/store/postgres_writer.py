"""Write a namespace's store in the PostgreSQL database that several servers share.

Each transaction holds the row of its namespace, so transactions of several servers follow one another, and the numbers
of their changes become visible in order: who has followed the log up to a number has missed none below it. How far the
indices of this server's own follow the log is noted beside them: the note is lost with them, so that they are then
derived from the first change on.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from models.files import parse_json
from retrieval.corpus.items import ParsedDocument, SkippedRecord, Span
from retrieval.corpus.store import schema
from retrieval.corpus.store.base import FILE_ID, Change, JournalEntry, Target
from retrieval.corpus.store.schema import Cut
from retrieval.errors import NamespaceDamaged, NamespaceUnknown
from retrieval.storage.database import Connection
from retrieval.storage.files import Disk, make_folder

if TYPE_CHECKING:
    from retrieval.corpus.chunking import Chunker

_FILE: Final = "positions.json"
_MAX_PASSED: Final = 10_000
_NUL: Final = "\0"
_CUT: Final = "namespace, passage_id, document, start, stop, section, page, same"
_UNNESTED: Final = (
    "unnest(%s::bigint[], %s::int[], %s::int[], %s::text[], %s::int[], %s::bytea[]) AS cuts (p, a, b, s, g, h)"
)


@dataclass(frozen=True, slots=True)
class SharedNamespace:
    """Name the rows of a namespace; ``own``: the indices that each server derives for itself."""

    id: int
    name: str
    uid: str
    own: frozenset[Target]


@dataclass(frozen=True, slots=True)
class Position:
    """Hold the number of the last change in each index, 0 for none, and how often they changed."""

    numbers: Mapping[Target, int] = field(default_factory=dict)
    commits: int = 0


class Positions:
    """Read and write the note of one namespace; changes require the lock of this server's own indices.

    ``uid``: identifies the namespace, since another one may have its name and so its folder later.
    """

    def __init__(self, folder: Path, uid: str) -> None:
        self._folder = folder
        self._uid = uid
        self._disk = Disk()

    def read(self) -> Position:
        """Return the position; that of another namespace, or a damaged note, counts as none."""
        try:
            found = parse_json((self._folder / _FILE).read_bytes())
            if found["uid"] == self._uid:
                return Position({str(name): int(value) for name, value in found["numbers"].items()}, found["commits"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            pass
        return Position()

    def note(self, target: Target, number: int) -> None:
        """Note that an index has all changes up to ``number``.

        Raises:
            NamespaceDamaged: the note cannot be written.
        """
        before = self.read()
        self._write({**before.numbers, target: number}, before.commits + 1)

    def claim(self) -> None:
        """Take the folder for the namespace, without the indices of an earlier one of this name.

        Raises:
            NamespaceDamaged: the folder cannot be written.
        """
        if not self._is_own():
            shutil.rmtree(self._folder, ignore_errors=True)
            self._write({}, 0)

    def _write(self, numbers: Mapping[Target, int], commits: int) -> None:
        state = {"uid": self._uid, "numbers": dict(numbers), "commits": commits}
        try:
            make_folder(self._folder)
            self._disk.replace(self._folder / _FILE, json.dumps(state).encode())
        except OSError as error:
            raise NamespaceDamaged(f"{self._folder}: cannot be written: {error.strerror}") from error

    def _is_own(self) -> bool:
        try:
            return bool(parse_json((self._folder / _FILE).read_bytes())["uid"] == self._uid)
        except (OSError, ValueError, TypeError, KeyError):
            return False


class PostgresPassageWriter:
    """Implement ``PassageWriter`` through one connection, which is opened with the first statement.

    Changes of this server's own indices are noted on this server and do not enter the database.
    """

    def __init__(
        self,
        of: SharedNamespace,
        positions: Positions,
        connect: Callable[[], Connection],
        rules: tuple[Chunker, Sequence[Target]],
    ) -> None:
        """``connect`` opens the connection; ``rules``: how documents are cut, and the existing indices."""
        self._of = of
        self._positions = positions
        self._connect = connect
        self._chunker, targets = rules
        self._shared = [target for target in targets if target not in of.own]
        self._cutting = repr(self._chunker.chunking)
        self._opened: Connection | None = None
        self._block: contextlib.ExitStack | None = None
        self._changed: dict[int, bool] = {}
        self._reached: dict[Target, int] = {}

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
        self._opened = None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self._changed, self._reached = {}, {}
        try:
            with contextlib.ExitStack() as block:
                self._block, entered = block, False
                yield
                entered = self._block is None
                if entered:
                    self._finish()
        finally:
            self._block = None
        for target, number in self._reached.items():
            self._positions.note(target, number)

    def _enter(self) -> Connection:
        """Begin the transaction in the database, at the first statement of a block."""
        if self._opened is None:
            self._opened = self._connect()
        if self._block is not None:
            self._block.enter_context(self._opened.transaction())
            self._block = None
            if not self._opened.rows("SELECT 1 FROM arrowhead_namespaces WHERE id = %s FOR UPDATE", (self._of.id,)):
                raise NamespaceUnknown(f"namespace {self._of.name} was deleted meanwhile", param="name")
        return self._opened

    def _finish(self) -> None:
        """Write the log of the changes, numbered behind the last one of the namespace, and the next generation."""
        ids = list(self._changed)
        gone = [self._changed[number] for number in ids]
        rows = self._enter().rows(
            "UPDATE arrowhead_namespaces SET generation = generation + 1, changes = changes + %s WHERE id = %s "
            "RETURNING changes",
            (len(ids), self._of.id),
        )
        if not ids:
            return
        first = int(rows[0][0]) - len(ids) + 1
        self._run(
            "INSERT INTO arrowhead_passage_changes (namespace, passage_id, number, gone) "
            "SELECT %s, * FROM unnest(%s::bigint[], %s::bigint[], %s::boolean[]) "
            "ON CONFLICT (namespace, passage_id) DO UPDATE SET number = excluded.number, gone = excluded.gone",
            self._of.id, ids, list(range(first, first + len(ids))), gone,
        )  # fmt: skip
        self._run(
            "INSERT INTO arrowhead_index_journal (namespace, target, passage_id, gone) SELECT %s, t, p, g "
            "FROM unnest(%s::text[]) AS t CROSS JOIN unnest(%s::bigint[], %s::boolean[]) AS c (p, g) "
            "ON CONFLICT (namespace, target, passage_id) DO UPDATE SET gone = excluded.gone",
            self._of.id, self._shared, ids, gone,
        )  # fmt: skip

    def _run(self, sql: str, *parameters: object) -> int:
        return self._enter().run(sql, parameters)

    def set_meta(self, key: str, value: str) -> None:
        self._run(
            "INSERT INTO arrowhead_namespace_values (namespace, key, value) VALUES (%s, %s, %s) "
            "ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value",
            self._of.id, key, value,
        )  # fmt: skip

    def put(self, reading: ParsedDocument, cuts: Sequence[Span] | None = None) -> Change:
        if _NUL in reading.text:
            reading = replace(reading, text=reading.text.replace(_NUL, "\N{REPLACEMENT CHARACTER}"))
        document = reading.document
        digest, body = schema.digest_of(reading, self._cutting), schema.document_text(document)
        known = self._enter().rows(
            "SELECT number, digest, body FROM arrowhead_documents WHERE namespace = %s AND document_id = %s",
            (self._of.id, document.document_id),
        )
        if known and schema.is_older(document, known[0][2]):
            return "unchanged"
        if known and bytes(known[0][1]) == digest:
            if known[0][2] == body:
                return "unchanged"
            self._update_document(known[0][0], reading, (digest, body))
            return "noted"
        rows = schema.cuts_of(self._of.name, reading, self._chunker.cut(reading) if cuts is None else cuts)
        if known:
            self._update_document(known[0][0], reading, (digest, body))
            self._put_passages(int(known[0][0]), rows)
            return "changed"
        self._replace_file(reading)
        self._insert_document(reading, (digest, body), rows)
        return "added"

    def _replace_file(self, reading: ParsedDocument) -> None:
        """Remove earlier versions of a file, whose ids are the digests of their content."""
        if not reading.document.document_id.startswith(FILE_ID):
            return
        sql = (
            "SELECT document_id FROM arrowhead_documents WHERE namespace = %s AND provenance = %s "
            "AND file_name <> '' AND starts_with(document_id, %s)"
        )
        for (old,) in self._enter().rows(sql, (self._of.id, reading.document.provenance, FILE_ID)):
            self.remove(old)

    def _insert_document(self, reading: ParsedDocument, sums: tuple[bytes, str], cuts: Mapping[int, Cut]) -> None:
        """Insert a document with its passages in one statement: each one is a way to the database and back."""
        values = _columns(reading, sums)
        marks = ", ".join(["%s"] * (len(values) + 2))
        rows = self._enter().rows(
            f"WITH d AS (INSERT INTO arrowhead_documents (namespace, document_id, {', '.join(values)}) "
            f"VALUES ({marks}) RETURNING namespace, number), c AS (SELECT * FROM {_UNNESTED}), "
            f"p AS (INSERT INTO arrowhead_passages ({_CUT}) SELECT namespace, p, number, a, b, s, g, h FROM d, c "
            "ON CONFLICT (namespace, same) DO NOTHING RETURNING passage_id), "
            f"t AS (INSERT INTO arrowhead_passage_twins ({_CUT}) SELECT namespace, p, number, a, b, s, g, h FROM d, c "
            "WHERE p NOT IN (SELECT passage_id FROM p)) SELECT passage_id FROM p",
            (self._of.id, reading.document.document_id, *values.values(), *_arrays(list(cuts.values()))),
        )
        originals = {int(row[0]) for row in rows}
        for one in cuts:
            if one in originals:
                self._note(one, gone=False)

    def _update_document(self, number: int, reading: ParsedDocument, sums: tuple[bytes, str]) -> None:
        values = _columns(reading, sums)
        assignments = ", ".join(f"{name} = %s" for name in values)
        self._run(f"UPDATE arrowhead_documents SET {assignments} WHERE number = %s", *values.values(), number)

    def _put_passages(self, number: int, cuts: Mapping[int, Cut]) -> None:
        """Replace the passages of document ``number``.

        Unchanged passages keep their ids and are indexed again, since title, date or types may have changed.
        """
        old = self._enter().rows("SELECT passage_id, same FROM arrowhead_passages WHERE document = %s", (number,))
        self._run("DELETE FROM arrowhead_passage_twins WHERE document = %s", number)
        self._delete_passages([(int(row[0]), bytes(row[1])) for row in old if row[0] not in cuts], number)
        unchanged = {int(row[0]) for row in old if row[0] in cuts}
        for cut in (cuts[one] for one in unchanged):
            sql = "UPDATE arrowhead_passages SET section = %s, page = %s WHERE namespace = %s AND passage_id = %s"
            self._run(sql, cut.span.section, cut.span.page, self._of.id, cut.passage_id)
        added = [cut for one, cut in cuts.items() if one not in unchanged]
        known = self._known([cut.same for cut in added])
        originals, twins = list[Cut](), list[Cut]()
        for cut in added:
            (twins if cut.same in known else originals).append(cut)
            known.add(cut.same)
        self._insert("arrowhead_passages", number, originals)
        self._insert("arrowhead_passage_twins", number, twins)
        twin_ids = {cut.passage_id for cut in twins}
        for one in cuts:
            if one not in twin_ids:
                self._note(one, gone=False)

    def _known(self, digests: list[bytes]) -> set[bytes]:
        sql = "SELECT same FROM arrowhead_passages WHERE namespace = %s AND same = ANY(%s)"
        return {bytes(row[0]) for row in self._enter().rows(sql, (self._of.id, digests))} if digests else set()

    def _insert(self, table: str, number: int, cuts: Sequence[Cut]) -> None:
        if not cuts:
            return
        again = "" if table == "arrowhead_passages" else "ON CONFLICT (namespace, passage_id) DO NOTHING"
        self._run(
            f"INSERT INTO {table} ({_CUT}) SELECT %s, p, %s, a, b, s, g, h FROM {_UNNESTED} {again}",
            self._of.id, number, *_arrays(cuts),
        )  # fmt: skip

    def _delete_passages(self, rows: Sequence[tuple[int, bytes]], number: int) -> None:
        """Delete passages of document ``number`` and replace each with another document's twin, if any."""
        for passage, same in rows:
            self._run("DELETE FROM arrowhead_passages WHERE namespace = %s AND passage_id = %s", self._of.id, passage)
            self._note(passage, gone=True)
            heir = self._enter().rows(
                "DELETE FROM arrowhead_passage_twins WHERE namespace = %s AND passage_id = ("
                "SELECT passage_id FROM arrowhead_passage_twins WHERE namespace = %s AND same = %s AND document <> %s "
                f"ORDER BY document, start LIMIT 1) RETURNING {_CUT}",
                (self._of.id, self._of.id, same, number),
            )
            if heir:
                marks = ", ".join(["%s"] * len(heir[0]))
                self._run(f"INSERT INTO arrowhead_passages ({_CUT}) VALUES ({marks})", *heir[0])
                self._note(int(heir[0][1]), gone=False)

    def _note(self, passage: int, *, gone: bool) -> None:
        # The last change of a passage has the last place.
        self._changed.pop(passage, None)
        self._changed[passage] = gone

    def remove(self, document_id: str) -> bool:
        rows = self._enter().rows(
            "SELECT number FROM arrowhead_documents WHERE namespace = %s AND document_id = %s",
            (self._of.id, document_id),
        )
        if not rows:
            return False
        self._put_passages(int(rows[0][0]), {})
        self._run("DELETE FROM arrowhead_documents WHERE number = %s", rows[0][0])
        return True

    def indexed(self, target: Target, entries: Sequence[JournalEntry]) -> None:
        if target in self._of.own:
            reached = self._reached.get(target, self._positions.read().numbers.get(target, 0))
            self._reached[target] = max([reached, *(entry.place for entry in entries)])
            return
        self._run(
            "DELETE FROM arrowhead_index_journal j USING unnest(%s::bigint[], %s::boolean[]) AS c (passage_id, gone) "
            "WHERE j.namespace = %s AND j.target = %s AND j.passage_id = c.passage_id AND j.gone = c.gone",
            [entry.passage_id for entry in entries], [entry.gone for entry in entries], self._of.id, target,
        )  # fmt: skip

    def mark_all_pending(self, target: Target) -> None:
        if target in self._of.own:
            self._reached[target] = 0
            return
        self.forget_target(target)
        self._run(
            "INSERT INTO arrowhead_index_journal (namespace, target, passage_id, gone) "
            "SELECT namespace, %s, passage_id, false FROM arrowhead_passages WHERE namespace = %s",
            target, self._of.id,
        )  # fmt: skip

    def forget_target(self, target: Target) -> None:
        self._run("DELETE FROM arrowhead_index_journal WHERE namespace = %s AND target = %s", self._of.id, target)
        self._run(
            "UPDATE arrowhead_namespace_values SET value = (value::bigint + 1)::text "
            "WHERE namespace = %s AND key = 'indexed'",
            self._of.id,
        )

    def record_skipped(self, passed: SkippedRecord) -> None:
        self._run(
            "INSERT INTO arrowhead_skipped_records (namespace, file, line, reason) SELECT %s, %s, %s, %s "
            "WHERE (SELECT count(*) FROM arrowhead_skipped_records WHERE namespace = %s) < %s "
            "ON CONFLICT (namespace, file, line) DO UPDATE SET reason = excluded.reason",
            self._of.id, passed.file, passed.line, passed.reason, self._of.id, _MAX_PASSED,
        )  # fmt: skip

    def forget_skipped(self, file: str) -> None:
        sql = (
            "DELETE FROM arrowhead_skipped_records WHERE namespace = %s AND (%s IN ('', file) OR starts_with(file, %s))"
        )
        self._run(sql, self._of.id, file, f"{file}/")

    def forget_sources(self) -> None:
        self._run("DELETE FROM arrowhead_sources WHERE namespace = %s", self._of.id)

    def finish_source(self, source: tuple[str, str, str], day: str, counts: dict[str, int]) -> None:
        self._run(
            "INSERT INTO arrowhead_sources (namespace, digest, name, reader, done, counts) "
            "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (namespace, digest) DO UPDATE SET name = excluded.name, "
            "reader = excluded.reader, done = excluded.done, counts = excluded.counts",
            self._of.id, *source, day, json.dumps(counts),
        )  # fmt: skip


def _arrays(cuts: Sequence[Cut]) -> tuple[list[object], ...]:
    """Return the columns of passages for ``_UNNESTED``."""
    return (
        [cut.passage_id for cut in cuts],
        [cut.span.start for cut in cuts],
        [cut.span.end for cut in cuts],
        [cut.span.section for cut in cuts],
        [cut.span.page for cut in cuts],
        [cut.same for cut in cuts],
    )


def _columns(reading: ParsedDocument, sums: tuple[bytes, str]) -> dict[str, object]:
    document, (digest, body) = reading.document, sums
    is_file = document.document_id.startswith(FILE_ID)
    return {
        "provenance": document.provenance,
        "file_name": document.provenance.rpartition("/")[2] if is_file else "",
        "title": document.title,
        "record": document.record,
        "digest": digest,
        "types": schema.types_text(document.types),
        "body": body,
        "spans": schema.spans_text(reading.spans),
        "content": reading.text,
        "whole": reading.whole,
    }
