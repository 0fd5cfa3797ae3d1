"""Read a namespace's store in the PostgreSQL database that several servers share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from retrieval.corpus.store.base import TARGETS, JournalEntry, PassageWriter, Target
from retrieval.corpus.store.postgres_writer import Positions, SharedNamespace
from retrieval.corpus.store.reader import Dialect, SqlPassageReader
from retrieval.corpus.store.schema import passage_of, stored_document
from retrieval.passages import Document, Passage
from retrieval.storage.database import Row, SharedDatabase

if TYPE_CHECKING:
    from retrieval.corpus.chunking import Chunker

_DIALECT: Final = Dialect(
    document="arrowhead_documents",
    passage="arrowhead_passages",
    twin="arrowhead_passage_twins",
    source="arrowhead_sources",
    passed="arrowhead_skipped_records",
    mine={alias: f"{alias}.namespace = :namespace" for alias in "dpt"},
    any_of="{} = ANY(:{})",
    file_name="d.file_name",
    title="d.title",
    record="d.record",
    find="strpos",
    newline="chr(10)",
    binary='COLLATE "C"',
)
_PARAMETER: Final = re.compile(r":(\w+)")
_JOURNAL: Final = "FROM arrowhead_index_journal WHERE namespace = :namespace"
_CHANGES: Final = "FROM arrowhead_passage_changes WHERE namespace = :namespace AND number > :low"


class PostgresPassageStore(SqlPassageReader):
    """Implement ``PassageStore``."""

    def __init__(
        self,
        database: SharedDatabase,
        of: SharedNamespace,
        positions: Positions,
        write: Callable[[Chunker, Sequence[Target]], PassageWriter],
    ) -> None:
        super().__init__(_DIALECT)
        self._database = database
        self._of = of
        self._positions = positions
        self._write = write

    def close(self) -> None:
        """Do nothing: the connections are the database's."""

    def is_replaced(self) -> bool:
        sql = "SELECT 1 FROM arrowhead_namespaces WHERE id = :namespace AND uid = :uid"
        return not self._rows(sql, uid=self._of.uid)

    def writer(self, chunker: Chunker, targets: Sequence[Target] = TARGETS) -> PassageWriter:
        return self._write(chunker, targets)

    def _rows(self, sql: str, **values: object) -> list[Row]:
        values["namespace"] = self._of.id
        parameters = [values[name] for name in _PARAMETER.findall(sql)]
        with self._database.connection() as connection:
            return connection.rows(_PARAMETER.sub("%s", sql), parameters)

    def meta(self, key: str) -> str:
        sql = "SELECT value FROM arrowhead_namespace_values WHERE namespace = :namespace AND key = :key"
        rows = self._rows(sql, key=key)
        value = str(rows[0][0]) if rows else ""
        # This server's indices change by its own commits; a change of settings concerns all servers.
        return f"{value}:{self._positions.read().commits}" if key == "indexed" else value

    def generation(self) -> int:
        rows = self._rows("SELECT generation FROM arrowhead_namespaces WHERE id = :namespace")
        return int(rows[0][0]) if rows else 0

    def _state(self) -> object:
        return self.generation(), self._positions.read()

    def _journal(self) -> list[Row]:
        counted = "count(*), count(*) FILTER (WHERE gone)"
        rows = self._rows(f"SELECT target, {counted} {_JOURNAL} GROUP BY target")
        for target in self._of.own:
            rows += self._rows(f"SELECT :target, {counted} {_CHANGES}", target=target, low=self._reached(target))
        return rows

    def _reached(self, target: Target) -> int:
        """Return the number of the last change in an index of this server's own."""
        return self._positions.read().numbers.get(target, 0)

    def _passages(self, tables: Sequence[str], where: str, **values: object) -> Iterator[tuple[Passage, Document]]:
        condition, _, order = where.partition(" ORDER BY ")
        sql = " UNION ALL ".join(
            "SELECT p.passage_id, p.start, p.stop, p.section, p.page, p.document, d.body, "
            "substring(d.content FROM p.start + 1 FOR p.stop - p.start) "
            f"FROM {table} p JOIN {{document}} d ON d.number = p.document WHERE {condition}"
            for table in tables
        )
        documents: dict[int, Document] = {}
        for *cut, number, body, text in self._ask(f"{sql} ORDER BY {order}", **values):
            if number not in documents:
                documents[number] = stored_document(body)
            yield passage_of(cut, documents[number], text), documents[number]

    def _waiting_of(self, number: int) -> dict[str, int]:
        passage = "p.namespace = j.namespace AND p.passage_id = j.passage_id AND p.document = :number"
        of_namespace = "WHERE j.namespace = :namespace"
        rows = self._rows(
            f"SELECT j.target, count(*) FROM arrowhead_passages p JOIN arrowhead_index_journal j ON {passage} "
            f"{of_namespace} GROUP BY j.target",
            number=number,
        )
        for target in sorted(self._of.own):
            rows += self._rows(
                f"SELECT :target, count(*) FROM arrowhead_passages p JOIN arrowhead_passage_changes j ON {passage} "
                f"{of_namespace} AND j.number > :low HAVING count(*) > 0",
                target=target,
                number=number,
                low=self._reached(target),
            )
        return {str(target): int(count) for target, count in rows}

    def pending(self, target: Target, limit: int, after: int = 0) -> list[JournalEntry]:
        if target in self._of.own:
            sql = f"SELECT passage_id, gone, number {_CHANGES} ORDER BY number LIMIT :most"
            rows = self._rows(sql, low=max(self._reached(target), after), most=limit)
        else:
            sql = (
                f"SELECT passage_id, gone, passage_id {_JOURNAL} AND target = :target AND passage_id > :after "
                "ORDER BY passage_id LIMIT :most"
            )
            rows = self._rows(sql, target=target, after=after, most=limit)
        return [JournalEntry(int(row[0]), bool(row[1]), int(row[2])) for row in rows]

    def waiting(self, target: Target, limit: int) -> int:
        if target in self._of.own:
            entries, low = _CHANGES, self._reached(target)
        else:
            entries, low = f"{_JOURNAL} AND target = :target", 0
        sql = f"SELECT count(*) FROM (SELECT 1 {entries} LIMIT :most) AS found"
        return int(self._rows(sql, target=target, low=low, most=limit)[0][0])

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
