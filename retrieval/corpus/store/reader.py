"""Read the store of a namespace by statements that SQLite and PostgreSQL understand.

What differs stands in braces, named by ``Dialect``; parameters have names, as in ``:name``.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from retrieval.corpus.items import ParsedDocument, SkippedRecord, Span
from retrieval.corpus.store.base import TARGETS, Counts, PassageFilter, StoredDocument, row_filter_of
from retrieval.corpus.store.schema import stored_document, stored_spans, stored_text
from retrieval.errors import NamespaceDamaged
from retrieval.index.base import Ids, RowFilter
from retrieval.passages import Document, Passage
from retrieval.storage.database import Row

_DOCUMENTS: Final = 200
_IDS: Final = 1000
_MORE_PAGES: Final = 1000  # for what is added meanwhile
_PAGES: Final = (
    "SELECT p.page FROM {passage} p WHERE p.document = d.number "
    "UNION ALL SELECT p.page FROM {twin} p WHERE p.document = d.number"
)
_DOCUMENT: Final = (
    f"d.number, d.body, (SELECT count(*) FROM ({_PAGES}) AS a), (SELECT coalesce(max(page), 0) FROM ({_PAGES}) AS b)"
)
_HAS_WORD: Final = (
    "{find}(lower((d.document_id || {newline} || {file_name} || {newline} || {title}) {binary}), "
    "lower(:word%d {binary})) > 0"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Name the tables, and write what the databases write differently.

    ``mine`` is the condition on the rows of this namespace by the alias of their table, ``any_of`` that a column (0) is
    one of the list under a name (1). ``file_name``, ``title`` and ``record`` are of the document ``d``. ``find`` tells
    where a text stands in another, ``binary`` compares by code points.
    """

    document: str
    passage: str
    twin: str
    source: str
    passed: str
    mine: Mapping[str, str]
    any_of: str
    file_name: str
    title: str
    record: str
    find: str
    newline: str
    binary: str

    def write(self, sql: str) -> str:
        """Return a statement for this database."""
        return sql.format(**{name: getattr(self, name) for name in self.__slots__})

    def among(self, column: str, name: str) -> str:
        return self.any_of.format(column, name)


class SqlPassageReader(ABC):
    """Implement what two stores of passages have in common; counts are computed once for each generation."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._lock = threading.Lock()
        self._counts: tuple[object, Counts] | None = None

    @abstractmethod
    def _rows(self, sql: str, **values: object) -> list[Row]:
        """Run a statement and return all its rows."""

    @abstractmethod
    def _state(self) -> object:
        """Return what differs when counts do."""

    @abstractmethod
    def _journal(self) -> list[Row]:
        """Return target, entries and deletions of each index with a journal."""

    @abstractmethod
    def _waiting_of(self, number: int) -> dict[str, int]:
        """Return how many passages of a document each index lacks."""

    @abstractmethod
    def _passages(self, tables: Sequence[str], where: str, **values: object) -> Iterator[tuple[Passage, Document]]:
        """Yield the rows of tables that a condition admits, with texts and documents as of the same moment.

        ``where``: the condition on the row ``p`` and its document ``d``, then the order by the columns ``document``,
        ``start``, ``stop`` and ``passage_id``; in the condition alone parameters are used in each table.
        """

    def _ask(self, sql: str, **values: object) -> list[Row]:
        return self._rows(self._dialect.write(sql), **values)

    def _pages(self, sql: str, low: object, **values: object) -> Iterator[list[Row]]:
        """Yield the rows of a statement in pages, each of which begins behind the last row of the one before.

        Raises:
            NamespaceDamaged: there are more pages than documents, as where an index of the store is in disorder.
        """
        for _ in range(self.counts().documents + _MORE_PAGES):
            if not (rows := self._ask(sql, low=low, **values)):
                return
            yield rows
            low = rows[-1][0]
        raise NamespaceDamaged("the store of its documents is in disorder and cannot be read to its end")

    def counts(self) -> Counts:
        state = self._state()
        with self._lock:
            if self._counts is not None and self._counts[0] == state:
                return self._counts[1]
        tables = ("{document}", "{passage}", "{twin}")
        (numbers,) = self._ask(
            "SELECT " + ", ".join(f"(SELECT count(*) FROM {table} d WHERE {{mine[d]}})" for table in tables)
        )
        pending, gone = Counter[str](dict.fromkeys(TARGETS, 0)), Counter[str](dict.fromkeys(TARGETS, 0))
        for target, entries, deletions in self._journal():
            pending[target], gone[target] = int(entries), int(deletions)
        counts = Counts(int(numbers[0]), int(numbers[1]), int(numbers[2]), pending, gone)
        with self._lock:
            self._counts = (state, counts)
        return counts

    def get(self, ids: Sequence[int]) -> list[tuple[Passage, Document]]:
        found: dict[int, tuple[Passage, Document]] = {}
        where = self._dialect.among("p.passage_id", "ids")
        for first in range(0, len(ids), _IDS):
            batch = [int(number) for number in ids[first : first + _IDS]]
            rows = self._passages(("{passage}",), f"{{mine[p]}} AND {where} ORDER BY document, start", ids=batch)
            found |= {passage.passage_id: (passage, document) for passage, document in rows}
        return [found[number] for number in ids if number in found]

    def passages(self, where: PassageFilter | None = None) -> Iterator[Passage]:
        condition = self._dialect.among("p.document", "numbers")
        sql = "SELECT d.number FROM {document} d WHERE {mine[d]} AND d.number > :low ORDER BY d.number LIMIT :most"
        for rows in self._pages(sql, 0, most=_DOCUMENTS):
            numbers = [int(row[0]) for row in rows]
            order = "ORDER BY document, start, passage_id"
            for passage, document in self._passages(("{passage}",), f"{condition} {order}", numbers=numbers):
                if where is None or where.admits(document):
                    yield passage

    def parsed_documents(self) -> Iterator[tuple[ParsedDocument, bytes]]:
        sql = (
            "SELECT d.number, d.body, d.content, d.spans, d.whole, d.digest FROM {document} d "
            "WHERE {mine[d]} AND d.number > :low ORDER BY d.number LIMIT 50"
        )
        for rows in self._pages(sql, 0):
            for _, body, content, spans, whole, digest in rows:
                yield (
                    ParsedDocument(stored_document(body), stored_text(content), stored_spans(spans), whole=bool(whole)),
                    bytes(digest),
                )

    def spans(self, document_id: str) -> list[Span]:
        number = "(SELECT d.number FROM {document} d WHERE {mine[d]} AND d.document_id = :id)"
        sql = " UNION ALL ".join(
            f"SELECT start, stop, section, page FROM {table} WHERE document = {number}"
            for table in ("{passage}", "{twin}")
        )
        return [Span(*row) for row in self._ask(f"{sql} ORDER BY start, stop", id=document_id)]

    def document(self, document_id: str) -> tuple[Document, str] | None:
        sql = "SELECT d.body, d.content FROM {document} d WHERE {mine[d]} AND d.document_id = :id"
        rows = self._ask(sql, id=document_id)
        return (stored_document(rows[0][0]), stored_text(rows[0][1])) if rows else None

    def documents(self, words: Sequence[str], limit: int, before: int = 0) -> list[StoredDocument]:
        condition, values = _having(words)
        if before:
            condition = f"{condition} AND d.number < :before"
            values["before"] = before
        sql = f"SELECT {_DOCUMENT} FROM {{document}} d WHERE {condition} ORDER BY d.number DESC LIMIT :most"
        return [self._stored(row) for row in self._ask(sql, most=limit, **values)]

    def count_documents(self, words: Sequence[str]) -> int:
        if not words:
            return self.counts().documents
        condition, values = _having(words)
        return int(self._ask(f"SELECT count(*) FROM {{document}} d WHERE {condition}", **values)[0][0])

    def stored_document(self, document_id: str) -> StoredDocument | None:
        sql = f"SELECT {_DOCUMENT} FROM {{document}} d WHERE {{mine[d]}} AND d.document_id = :id"
        rows = self._ask(sql, id=document_id)
        return self._stored(rows[0]) if rows else None

    def _stored(self, row: Row) -> StoredDocument:
        number, body, passages, pages = row
        return StoredDocument(number, stored_document(body), int(passages), int(pages), self._waiting_of(number))

    def document_passages(self, document_id: str, limit: int, offset: int = 0) -> list[Passage]:
        where = "{mine[d]} AND d.document_id = :id ORDER BY start, stop LIMIT :most OFFSET :offset"
        rows = self._passages(("{passage}", "{twin}"), where, id=document_id, most=limit, offset=offset)
        return [passage for passage, _ in rows]

    def files_named(self, name: str) -> list[str]:
        return self._document_ids("{file_name} = :name", name=name) if name else []

    def from_file(self, file: str) -> list[str]:
        below = "substr(d.provenance, 1, length(:below)) = :below"
        return self._document_ids(f"(d.provenance = :file OR {below})", file=file, below=f"{file}/")

    def documents_of(self, papers: Sequence[str]) -> list[str]:
        of_paper, of_record = (self._dialect.among(column, "papers") for column in ("d.document_id", "{record}"))
        return self._document_ids(f"({of_paper} OR ({{record}} <> '' AND {of_record}))", papers=list(papers))

    def known(self, document_ids: Sequence[str]) -> set[str]:
        return set(self._document_ids(self._dialect.among("d.document_id", "ids"), ids=list(document_ids)))

    def _document_ids(self, condition: str, **values: object) -> list[str]:
        sql = f"SELECT d.document_id FROM {{document}} d WHERE {{mine[d]}} AND {condition} ORDER BY d.number"
        return [str(row[0]) for row in self._ask(sql, **values)]

    def document_ids(self, prefix: str = "") -> Iterator[str]:
        sql = (
            "SELECT d.document_id FROM {document} d WHERE {mine[d]} AND d.document_id > :low "
            "ORDER BY d.document_id LIMIT 1000"
        )
        for rows in self._pages(sql, prefix):
            for (found,) in rows:
                if not found.startswith(prefix):
                    return
                yield found

    def passage_ids(self) -> Ids:
        sql = "SELECT p.passage_id FROM {passage} p WHERE {mine[p]} ORDER BY p.document, p.start, p.passage_id"
        return _ids(self._ask(sql))

    def also_in(self, passage_id: int) -> list[Document]:
        sql = (
            "SELECT d.body FROM {passage} p JOIN {twin} t ON t.same = p.same "
            "JOIN {document} d ON d.number = t.document "
            "WHERE {mine[p]} AND {mine[t]} AND p.passage_id = :id ORDER BY d.number"
        )
        return [stored_document(body) for (body,) in self._ask(sql, id=passage_id)]

    def is_finished(self, source: tuple[str, str]) -> bool:
        sql = "SELECT 1 FROM {source} d WHERE {mine[d]} AND d.digest = :digest AND d.reader = :reader"
        return bool(self._ask(sql, digest=source[0], reader=source[1]))

    def passed(self, limit: int = 1000) -> list[SkippedRecord]:
        sql = "SELECT file, line, reason FROM {passed} d WHERE {mine[d]} ORDER BY file {binary}, line LIMIT :most"
        return [SkippedRecord(*row) for row in self._ask(sql, most=limit)]

    def row_filter(self, where: PassageFilter) -> RowFilter | None:
        return row_filter_of(where, self._filtered)

    def _filtered(self, where: PassageFilter) -> Ids:
        conditions, values = ["{mine[d]}"], dict[str, object]()
        for names, joined, sign in ((where.types, " OR ", ">"), (where.without_types, " AND ", "=")):
            marks = [f"type{len(values) + number}" for number in range(len(names))]
            values |= dict(zip(marks, (f"|{name}|" for name in names), strict=True))
            if names:
                conditions.append("(" + joined.join(f"{{find}}(d.types, :{mark}) {sign} 0" for mark in marks) + ")")
        if where.documents is not None:
            conditions.append(self._dialect.among("d.document_id", "ids"))
            values["ids"] = sorted(where.documents)
        sql = "SELECT p.passage_id FROM {document} d JOIN {passage} p ON p.document = d.number WHERE "
        return np.sort(_ids(self._ask(sql + " AND ".join(conditions), **values)))


def _having(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the condition on documents that have each of the words in id, name or title, with its parameters."""
    conditions = ["{mine[d]}", *(_HAS_WORD % number for number in range(len(words)))]
    return " AND ".join(conditions), {f"word{number}": word for number, word in enumerate(words)}


def _ids(rows: Sequence[Row]) -> Ids:
    return np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
