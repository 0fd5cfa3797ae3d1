"""Read a namespace's store in the PostgreSQL database that several servers share."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from retrieval.corpus.items import ParsedDocument, SkippedRecord, Span
from retrieval.corpus.store.base import (
    TARGETS,
    Counts,
    JournalEntry,
    PassageFilter,
    PassageWriter,
    StoredDocument,
    Target,
    row_filter_of,
)
from retrieval.corpus.store.postgres_writer import Positions, SharedNamespace
from retrieval.corpus.store.schema import document_of, spans_of
from retrieval.index.base import Ids, RowFilter
from retrieval.passages import Document, Passage
from retrieval.storage.database import Connection, Row, SharedDatabase

if TYPE_CHECKING:
    from retrieval.corpus.chunking import Chunker

_DOCUMENTS: Final = 200
_IDS: Final = 1000
_PASSAGES: Final = """
SELECT p.passage_id, p.start, p.stop, p.section, p.page, d.number, d.body,
       substring(d.content FROM p.start + 1 FOR p.stop - p.start)
FROM {table} p JOIN arrowhead_documents d ON d.number = p.document
WHERE {condition}
"""
_OF_DOCUMENT: Final = (
    "SELECT page FROM arrowhead_passages WHERE document = d.number "
    "UNION ALL SELECT page FROM arrowhead_passage_twins WHERE document = d.number"
)
_DOCUMENT: Final = (
    f"d.number, d.body, (SELECT count(*) FROM ({_OF_DOCUMENT}) AS a), "
    f"(SELECT coalesce(max(page), 0) FROM ({_OF_DOCUMENT}) AS b)"
)
_HAS_WORD: Final = (
    'strpos(lower((d.document_id || chr(10) || d.file_name || chr(10) || d.title) COLLATE "C"), '
    'lower(%s COLLATE "C")) > 0'
)
_WAITING: Final = "namespace = %s AND number > %s"
_TABLES: Final = ("arrowhead_passages", "arrowhead_passage_twins")


class PostgresPassageStore:
    """Implement ``PassageStore``; counts are computed once for each generation."""

    def __init__(
        self,
        database: SharedDatabase,
        of: SharedNamespace,
        positions: Positions,
        write: Callable[[Chunker, Sequence[Target]], PassageWriter],
    ) -> None:
        self._database = database
        self._of = of
        self._positions = positions
        self._write = write
        self._lock = threading.Lock()
        self._counts: tuple[object, Counts] | None = None

    def close(self) -> None:
        """Do nothing: the connections are the database's."""

    def is_replaced(self) -> bool:
        return not self._rows(
            "SELECT 1 FROM arrowhead_namespaces WHERE id = %s AND uid = %s", self._of.id, self._of.uid
        )

    def writer(self, chunker: Chunker, targets: Sequence[Target] = TARGETS) -> PassageWriter:
        return self._write(chunker, targets)

    def _rows(self, sql: str, *parameters: object) -> list[Row]:
        with self._database.connection() as connection:
            return connection.rows(sql, parameters)

    def meta(self, key: str) -> str:
        rows = self._rows(
            "SELECT value FROM arrowhead_namespace_values WHERE namespace = %s AND key = %s", self._of.id, key
        )
        value = str(rows[0][0]) if rows else ""
        # This server's indices change by its own commits; a change of settings concerns all servers.
        return f"{value}:{self._positions.read().commits}" if key == "indexed" else value

    def generation(self) -> int:
        rows = self._rows("SELECT generation FROM arrowhead_namespaces WHERE id = %s", self._of.id)
        return int(rows[0][0]) if rows else 0

    def counts(self) -> Counts:
        state = (self.generation(), self._positions.read())
        with self._lock:
            if self._counts is not None and self._counts[0] == state:
                return self._counts[1]
        with self._database.connection() as connection:
            numbers = [
                int(connection.rows(f"SELECT count(*) FROM {table} WHERE namespace = %s", (self._of.id,))[0][0])
                for table in ("arrowhead_documents", *_TABLES)
            ]
            pending, gone = self._waiting(connection)
        counts = Counts(numbers[0], numbers[1], numbers[2], pending, gone)
        with self._lock:
            self._counts = (state, counts)
        return counts

    def _waiting(self, connection: Connection) -> tuple[Counter[str], Counter[str]]:
        pending, gone = Counter[str](dict.fromkeys(TARGETS, 0)), Counter[str](dict.fromkeys(TARGETS, 0))
        rows = connection.rows(
            "SELECT target, count(*), count(*) FILTER (WHERE gone) FROM arrowhead_index_journal "
            "WHERE namespace = %s GROUP BY target",
            (self._of.id,),
        )
        numbers = self._positions.read().numbers
        for target in self._of.own:
            sql = f"SELECT %s, count(*), count(*) FILTER (WHERE gone) FROM arrowhead_passage_changes WHERE {_WAITING}"
            number = numbers.get(target, 0)
            rows += connection.rows(sql, (target, self._of.id, number))
        for target, entries, deletions in rows:
            pending[target], gone[target] = int(entries), int(deletions)
        return pending, gone

    def get(self, ids: Sequence[int]) -> list[tuple[Passage, Document]]:
        found: dict[int, tuple[Passage, Document]] = {}
        for first in range(0, len(ids), _IDS):
            batch = [int(number) for number in ids[first : first + _IDS]]
            rows = self._passages("p.namespace = %s AND p.passage_id = ANY(%s)", self._of.id, batch)
            found |= {passage.passage_id: (passage, document) for passage, document in rows}
        return [found[number] for number in ids if number in found]

    def _passages(
        self, condition: str, *parameters: object, table: str = _TABLES[0]
    ) -> Iterator[tuple[Passage, Document]]:
        documents: dict[int, Document] = {}
        for *cut, number, body, text in self._rows(_PASSAGES.format(table=table, condition=condition), *parameters):
            if number not in documents:
                documents[number] = document_of(body)
            yield _passage(cut, documents[number], text), documents[number]

    def passages(self, where: PassageFilter | None = None) -> Iterator[Passage]:
        low = 0
        while rows := self._numbers(low):
            high = rows[-1]
            condition = "p.document = ANY(%s) ORDER BY p.document, p.start, p.passage_id"
            for passage, document in self._passages(condition, rows):
                if where is None or where.admits(document):
                    yield passage
            low = high

    def _numbers(self, after: int) -> list[int]:
        sql = "SELECT number FROM arrowhead_documents WHERE namespace = %s AND number > %s ORDER BY number LIMIT %s"
        return [int(row[0]) for row in self._rows(sql, self._of.id, after, _DOCUMENTS)]

    def parsed_documents(self) -> Iterator[tuple[ParsedDocument, bytes]]:
        low = 0
        sql = (
            "SELECT number, body, content, spans, whole, digest FROM arrowhead_documents "
            "WHERE namespace = %s AND number > %s ORDER BY number LIMIT 50"
        )
        while rows := self._rows(sql, self._of.id, low):
            low = rows[-1][0]
            for _, body, content, spans, whole, digest in rows:
                yield ParsedDocument(document_of(body), content, spans_of(spans), whole=whole), bytes(digest)

    def spans(self, document_id: str) -> list[Span]:
        number = "(SELECT number FROM arrowhead_documents WHERE namespace = %s AND document_id = %s)"
        sql = " UNION ALL ".join(
            f"SELECT start, stop, section, page FROM {table} WHERE document = {number}" for table in _TABLES
        )
        rows = self._rows(f"{sql} ORDER BY start, stop", *(self._of.id, document_id) * 2)
        return [Span(*row) for row in rows]

    def document(self, document_id: str) -> tuple[Document, str] | None:
        rows = self._rows(
            "SELECT body, content FROM arrowhead_documents WHERE namespace = %s AND document_id = %s",
            self._of.id,
            document_id,
        )
        return (document_of(rows[0][0]), str(rows[0][1])) if rows else None

    def documents(self, words: Sequence[str], limit: int, before: int = 0) -> list[StoredDocument]:
        condition = " AND ".join(["d.namespace = %s", *(_HAS_WORD for _ in words)])
        if before:
            condition = f"{condition} AND d.number < {int(before)}"
        sql = f"SELECT {_DOCUMENT} FROM arrowhead_documents d WHERE {condition} ORDER BY d.number DESC LIMIT %s"
        return [self._stored(row) for row in self._rows(sql, self._of.id, *words, limit)]

    def count_documents(self, words: Sequence[str]) -> int:
        if not words:
            return self.counts().documents
        condition = " AND ".join(["d.namespace = %s", *(_HAS_WORD for _ in words)])
        sql = f"SELECT count(*) FROM arrowhead_documents d WHERE {condition}"
        return int(self._rows(sql, self._of.id, *words)[0][0])

    def stored_document(self, document_id: str) -> StoredDocument | None:
        sql = f"SELECT {_DOCUMENT} FROM arrowhead_documents d WHERE d.namespace = %s AND d.document_id = %s"
        rows = self._rows(sql, self._of.id, document_id)
        return self._stored(rows[0]) if rows else None

    def _stored(self, row: Row) -> StoredDocument:
        number, body, passages, pages = row
        passage = "p.namespace = j.namespace AND p.passage_id = j.passage_id AND p.document = %s"
        rows = self._rows(
            f"SELECT j.target, count(*) FROM arrowhead_passages p JOIN arrowhead_index_journal j ON {passage} "
            "WHERE j.namespace = %s GROUP BY j.target",
            number,
            self._of.id,
        )
        numbers = self._positions.read().numbers
        for target in sorted(self._of.own):
            sql = (
                f"SELECT %s, count(*) FROM arrowhead_passages p JOIN arrowhead_passage_changes j ON {passage} "
                "WHERE j.namespace = %s AND j.number > %s HAVING count(*) > 0"
            )
            rows += self._rows(sql, target, number, self._of.id, numbers.get(target, 0))
        waiting = {str(target): int(count) for target, count in rows}
        return StoredDocument(number, document_of(body), int(passages), int(pages), waiting)

    def document_passages(self, document_id: str, limit: int, offset: int = 0) -> list[Passage]:
        condition = "d.namespace = %s AND d.document_id = %s"
        sql = " UNION ALL ".join(_PASSAGES.format(table=table, condition=condition) for table in _TABLES)
        parameters = (*(self._of.id, document_id) * 2, limit, offset)
        rows = self._rows(f"{sql} ORDER BY start, stop LIMIT %s OFFSET %s", *parameters)
        return [_passage(cut, document_of(body), text) for *cut, _, body, text in rows]

    def files_named(self, name: str) -> list[str]:
        if not name:
            return []
        sql = "SELECT document_id FROM arrowhead_documents WHERE namespace = %s AND file_name = %s ORDER BY number"
        return [str(row[0]) for row in self._rows(sql, self._of.id, name)]

    def from_file(self, file: str) -> list[str]:
        sql = (
            "SELECT document_id FROM arrowhead_documents WHERE namespace = %s "
            "AND (provenance = %s OR starts_with(provenance, %s)) ORDER BY number"
        )
        return [str(row[0]) for row in self._rows(sql, self._of.id, file, f"{file}/")]

    def passage_ids(self) -> Ids:
        sql = "SELECT passage_id FROM arrowhead_passages WHERE namespace = %s ORDER BY document, start, passage_id"
        return _ids(self._rows(sql, self._of.id))

    def documents_of(self, papers: Sequence[str]) -> list[str]:
        sql = (
            "SELECT document_id FROM arrowhead_documents WHERE namespace = %s "
            "AND (document_id = ANY(%s) OR (record <> '' AND record = ANY(%s))) ORDER BY number"
        )
        return [str(row[0]) for row in self._rows(sql, self._of.id, list(papers), list(papers))]

    def document_ids(self, prefix: str = "") -> Iterator[str]:
        low = prefix
        sql = (
            "SELECT document_id FROM arrowhead_documents WHERE namespace = %s AND document_id > %s "
            "AND starts_with(document_id, %s) ORDER BY document_id LIMIT 1000"
        )
        while rows := self._rows(sql, self._of.id, low, prefix):
            yield from (str(row[0]) for row in rows)
            low = str(rows[-1][0])

    def known(self, document_ids: Sequence[str]) -> set[str]:
        sql = "SELECT document_id FROM arrowhead_documents WHERE namespace = %s AND document_id = ANY(%s)"
        return {str(row[0]) for row in self._rows(sql, self._of.id, list(document_ids))}

    def also_in(self, passage_id: int) -> list[Document]:
        sql = (
            "SELECT d.body FROM arrowhead_passages p "
            "JOIN arrowhead_passage_twins t ON t.namespace = p.namespace AND t.same = p.same "
            "JOIN arrowhead_documents d ON d.number = t.document "
            "WHERE p.namespace = %s AND p.passage_id = %s ORDER BY d.number"
        )
        return [document_of(body) for (body,) in self._rows(sql, self._of.id, passage_id)]

    def pending(self, target: Target, limit: int, after: int = 0) -> list[JournalEntry]:
        if target in self._of.own:
            number = self._positions.read().numbers.get(target, 0)
            sql = (
                f"SELECT passage_id, gone, number FROM arrowhead_passage_changes WHERE {_WAITING} "
                "ORDER BY number LIMIT %s"
            )
            rows = self._rows(sql, self._of.id, max(number, after), limit)
        else:
            sql = (
                "SELECT passage_id, gone, passage_id FROM arrowhead_index_journal "
                "WHERE namespace = %s AND target = %s AND passage_id > %s ORDER BY passage_id LIMIT %s"
            )
            rows = self._rows(sql, self._of.id, target, after, limit)
        return [JournalEntry(int(row[0]), bool(row[1]), int(row[2])) for row in rows]

    def waiting(self, target: Target, limit: int) -> int:
        if target in self._of.own:
            number = self._positions.read().numbers.get(target, 0)
            inner = f"SELECT 1 FROM arrowhead_passage_changes WHERE {_WAITING} LIMIT %s"
            parameters: tuple[object, ...] = (self._of.id, number, limit)
        else:
            inner = "SELECT 1 FROM arrowhead_index_journal WHERE namespace = %s AND target = %s LIMIT %s"
            parameters = (self._of.id, target, limit)
        return int(self._rows(f"SELECT count(*) FROM ({inner}) AS found", *parameters)[0][0])

    def is_finished(self, source: tuple[str, str]) -> bool:
        sql = "SELECT 1 FROM arrowhead_sources WHERE namespace = %s AND digest = %s AND reader = %s"
        return bool(self._rows(sql, self._of.id, *source))

    def passed(self, limit: int = 1000) -> list[SkippedRecord]:
        sql = (
            "SELECT file, line, reason FROM arrowhead_skipped_records WHERE namespace = %s "
            'ORDER BY file COLLATE "C", line LIMIT %s'
        )
        return [SkippedRecord(*row) for row in self._rows(sql, self._of.id, limit)]

    def faults(self) -> Iterator[str]:
        """Yield what no constraint of the tables excludes: a duplicate whose original is not there."""
        connection = self._database.session()
        try:
            rows = connection.rows(
                "SELECT count(*) FROM arrowhead_passage_twins t WHERE t.namespace = %s AND NOT EXISTS "
                "(SELECT 1 FROM arrowhead_passages p WHERE p.namespace = t.namespace AND p.same = t.same)",
                (self._of.id,),
            )
        finally:
            connection.close()
        if rows[0][0]:
            yield f"store: {rows[0][0]} passages are kept as twins of none"

    def row_filter(self, where: PassageFilter) -> RowFilter | None:
        return row_filter_of(where, self._filtered)

    def _filtered(self, where: PassageFilter) -> Ids:
        conditions, parameters = ["d.namespace = %s"], list[object]([self._of.id])
        for names, joined, sign in ((where.types, " OR ", ">"), (where.without_types, " AND ", "=")):
            if names:
                conditions.append("(" + joined.join(f"strpos(d.types, %s) {sign} 0" for _ in names) + ")")
                parameters += [f"|{name}|" for name in names]
        if where.documents is not None:
            conditions.append("d.document_id = ANY(%s)")
            parameters.append(sorted(where.documents))
        sql = (
            "SELECT p.passage_id FROM arrowhead_documents d JOIN arrowhead_passages p ON p.document = d.number "
            f"WHERE {' AND '.join(conditions)}"
        )
        return np.sort(_ids(self._rows(sql, *parameters)))


def _passage(cut: Sequence[Any], document: Document, text: str) -> Passage:
    number, start, stop, section, page = cut
    return Passage(
        passage_id=number,
        document_id=document.document_id,
        title=document.title,
        text=text,
        section=section,
        start=start,
        end=stop,
        page=page,
        date=document.date,
        types=document.types,
    )


def _ids(rows: Sequence[Row]) -> Ids:
    return np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
