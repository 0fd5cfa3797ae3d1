"""Implement the vector index over a table with halfvec vectors and, where it is large, an HNSW graph.

Has the statements of the table, and its numbers in PostgreSQL's own forms.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from models.encoders.base import Floats, Metric
from retrieval.errors import IndexDamaged, IndexFault
from retrieval.index.base import NO_ID, Ids, IndexStats, Neighbours, RowFilter, Rows
from retrieval.index.segments.index import checked_filter, checked_ids, checked_k, checked_rows, checked_vectors
from retrieval.storage.database import Connection, Row, SharedDatabase

# Below so many rows that pass the filter, all are scored: exact, and no slower than the graph.
EXACT_ROWS: Final = 10_000
# Rows that the graph's search keeps at hand; with them recall at 10 is above 0.99 (docs/retrieval.md).
_EF_SEARCH: Final = 400
_MAX_EF_SEARCH: Final = 1000
_ALL_TUPLES: Final = 2_147_483_647
# Equal scores are ordered by id, and the graph may return other ones of them.
TIES: Final = 10
_OPERATORS: Final[dict[Metric, tuple[str, str]]] = {
    "inner_product": ("<#>", "halfvec_ip_ops"),
    "l2": ("<->", "halfvec_l2_ops"),
}
_BATCH: Final = 1000
_SAMPLE: Final = 40
_SAMPLE_K: Final = 10
# The recall is measured again when the index has grown by this factor.
_GROWTH: Final = 1.25
_BUILD_MEMORY: Final = "512MB"


@dataclass(frozen=True, slots=True)
class VectorTable:
    """Name the table of one index."""

    id: int
    dim: int
    metric: Metric

    @property
    def name(self) -> str:
        return f"arrowhead_vectors_{self.id}"

    @property
    def graph(self) -> str:
        return f"{self.name}_graph"

    def create(self) -> list[str]:
        """Return the statements that make the table, without the graph, which a large table has."""
        return [
            f"CREATE TABLE {self.name} (id bigint PRIMARY KEY, day integer NOT NULL, types bigint NOT NULL, "
            f"part integer NOT NULL, vector halfvec({self.dim}) NOT NULL)",
            # Vectors in the row itself: a scan reads them all.
            f"ALTER TABLE {self.name} ALTER COLUMN vector SET STORAGE PLAIN",
            # Columns of filters alone, so that the rows that pass are counted without their vectors.
            f"CREATE INDEX {self.name}_columns ON {self.name} (day, types, part)",
        ]

    def create_graph(self) -> str:
        return (
            f"CREATE INDEX {self.graph} ON {self.name} USING hnsw (vector {_OPERATORS[self.metric][1]}) "
            "WITH (m = 16, ef_construction = 128)"
        )

    def nearest(self, condition: str, *, exact: bool) -> str:
        """Return the search for the nearest rows by halves, with their distances from the query as it was given.

        Its parameters: the query, those of the condition, the query in halves, and the number of rows.
        """
        operator, _ = _OPERATORS[self.metric]
        order = f"ORDER BY vector {operator} %s::halfvec({self.dim})"
        if exact:
            # A plan with the graph would be approximate.
            rows = f"WITH passing AS MATERIALIZED (SELECT id, vector FROM {self.name} WHERE {condition}) "
            rows += f"SELECT id, vector FROM passing {order}, id LIMIT %s"
        else:
            rows = f"SELECT id, vector FROM {self.name} WHERE {condition} {order} LIMIT %s"
        return f"SELECT id, vector::vector({self.dim}) {operator} %s::vector({self.dim}) FROM ({rows}) AS found"


def search_settings(k: int) -> tuple[str, tuple[str, ...]]:
    """Return the statement that sets the graph's search for one transaction, with its parameters.

    The search goes on until ``k`` rows pass the filter, however few do.
    """
    names = ("hnsw.ef_search", "hnsw.iterative_scan", "hnsw.max_scan_tuples", "hnsw.scan_mem_multiplier")
    values = (str(min(_MAX_EF_SEARCH, max(_EF_SEARCH, 2 * k))), "strict_order", str(_ALL_TUPLES), "16")
    calls = ", ".join(f"set_config('{name}', %s, true)" for name in names)
    return f"SELECT {calls}", values


def condition_of(where: RowFilter | None) -> tuple[str, list[object]]:
    """Return the condition on rows and its parameters."""
    conditions, parameters = ["true"], list[object]()
    if where is None:
        return "true", []
    if where.namespaces is not None:
        conditions.append("part = ANY(%s::int[])")
        parameters.append(sorted(where.namespaces))
    if where.date_from or where.date_to:
        conditions.append("day > 0 AND day >= %s")
        parameters.append(where.date_from)
    if where.date_to:
        conditions.append("day <= %s")
        parameters.append(where.date_to)
    if where.types:
        conditions.append("(types & %s::bigint) <> 0")
        parameters.append(where.types)
    if where.without_types:
        conditions.append("(types & %s::bigint) = 0")
        parameters.append(where.without_types)
    if where.ids is not None:
        conditions.append("id = ANY(%s::bigint[])")
        parameters.append(where.ids.tolist())
    return " AND ".join(conditions), parameters


def vector_text(vector: Floats) -> str:
    return "[" + ",".join(map(repr, vector.tolist())) + "]"


def floats_of(values: Sequence[float]) -> Floats:
    return np.array(values, dtype=np.float32)


class PgVectorIndex:
    """Implement ``VectorIndex``; ``retrieval.index.pgvector.indices`` opens it.

    Vectors are stored with the centre of the first commit subtracted, since halves keep about three digits. A writer
    works in one transaction of its own until ``commit``.
    """

    def __init__(
        self, database: SharedDatabase, table: VectorTable, *, write: bool, exact_rows: int = EXACT_ROWS
    ) -> None:
        """``exact_rows``: where at most so many rows pass the filter, all of them are scored."""
        self._exact_rows = exact_rows
        self._database = database
        self._table = table
        self._lock = threading.RLock()
        self._closed = False
        self._session: Connection | None = database.session() if write else None
        self._block: contextlib.ExitStack | None = None
        self._centre = self._stored_centre()

    @property
    def dim(self) -> int:
        return self._table.dim

    @property
    def metric(self) -> Metric:
        return self._table.metric

    def add(self, rows: Rows) -> None:
        columns, vectors = checked_rows(rows, self.dim)
        if not len(columns):
            return
        sql = (
            f"INSERT INTO {self._table.name} SELECT i, d, t, p, v::halfvec({self.dim}) FROM "
            "unnest(%s::bigint[], %s::int[], %s::bigint[], %s::int[], %s::text[]) AS c (i, d, t, p, v) "
            "ON CONFLICT (id) DO UPDATE SET day = excluded.day, types = excluded.types, part = excluded.part, "
            "vector = excluded.vector"
        )
        with self._writing() as connection:
            centred = vectors - self._centre_for(connection, vectors)
            for first in range(0, len(columns), _BATCH):
                part = slice(first, first + _BATCH)
                texts = [vector_text(vector) for vector in centred[part]]
                some = columns.take(part)
                values = (some.ids.tolist(), some.dates.tolist(), some.types.tolist(), some.namespaces.tolist(), texts)
                connection.run(sql, values)

    def delete(self, ids: Ids) -> int:
        deleted = np.unique(checked_ids(ids)).tolist()
        with self._writing() as connection:
            return connection.run(f"DELETE FROM {self._table.name} WHERE id = ANY(%s::bigint[])", (deleted,))

    def search(self, queries: Floats, k: int, where: RowFilter | None = None) -> Neighbours:
        checked, k, where = checked_vectors(queries, self.dim, "queries"), checked_k(k), checked_filter(where)
        ids = np.full((len(checked), k), NO_ID, np.int64)
        scores = np.full((len(checked), k), -np.inf, np.float32)
        with self._reading() as connection, connection.transaction():
            exact = len(checked) > 0 and self._is_small(connection, where)
            for index, query in enumerate(checked):
                found = self._nearest(connection, query, (k, exact), where)
                ids[index, : len(found)] = [row[0] for row in found]
                scores[index, : len(found)] = [row[1] for row in found]
        return Neighbours(ids, scores)

    def get(self, ids: Sequence[int]) -> dict[int, Floats]:
        requested = np.unique(checked_ids(np.array(ids, np.int64))).tolist()
        with self._reading() as connection:
            sql = f"SELECT id, vector::real[] FROM {self._table.name} WHERE id = ANY(%s::bigint[])"
            rows = connection.rows(sql, (requested,))
        centre = self._known_centre()
        return {int(number): floats_of(values) + centre for number, values in rows}

    def commit(self) -> int:
        """Commit, see ``VectorIndex``; a table that has become large gets its graph, and its recall is measured."""
        with self._writing() as connection:
            sql = (
                f"UPDATE arrowhead_vector_indices SET generation = generation + 1, live_rows = (SELECT count(*) FROM "
                f"{self._table.name}) WHERE id = %s RETURNING generation, live_rows, measured_rows"
            )
            rows = connection.rows(sql, (self._table.id,))
            if not rows:
                raise IndexDamaged("the index was deleted while it was written")
            generation, live, measured = rows[0]
            if live > self._exact_rows:
                self._add_graph(connection)
            if live > measured * _GROWTH:
                connection.run(f"ANALYZE {self._table.name}")
                self._measure(connection, live)
            block, self._block = self._block, None
            if block is not None:
                block.close()
        return int(generation)

    def stats(self) -> IndexStats:
        with self._reading() as connection:
            rows = connection.rows(
                f"SELECT (SELECT count(*) FROM {self._table.name}), generation, recall, "
                f"pg_total_relation_size('{self._table.name}') FROM arrowhead_vector_indices WHERE id = %s",
                (self._table.id,),
            )
        if not rows:
            raise IndexDamaged("the index was deleted")
        live, generation, recall, size = rows[0]
        return IndexStats(
            rows=live, deleted=0, segments=1, generation=generation, bytes_memory=0, bytes_disk=size,
            detail={"recall": recall, "backend": "pgvector"},
        )  # fmt: skip

    def close(self) -> None:
        """Close the index and discard uncommitted changes."""
        with self._lock:
            self._closed = True
            session, self._session, self._block = self._session, None, None
            if session is not None:
                session.close()

    def _nearest(
        self, connection: Connection, query: Floats, how: tuple[int, bool], where: RowFilter | None
    ) -> list[tuple[int, float]]:
        k, exact = how
        condition, parameters = condition_of(where)
        centre = self._known_centre()
        asked = query if self.metric == "inner_product" else query - centre
        text = vector_text(asked)
        values = [text, *parameters, text, k + TIES]
        rows: list[Row] = []
        if not exact:
            connection.rows(*search_settings(k + TIES))
            rows = connection.rows(self._table.nearest(condition, exact=False), values)
        if len(rows) < k:  # a row that no path of the graph reaches is found by the scan
            rows = connection.rows(self._table.nearest(condition, exact=True), values)
        shift = float(np.dot(query.astype(np.float64), centre)) if self.metric == "inner_product" else 0.0
        hits = [(int(number), self._score(distance, shift)) for number, distance in rows]
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]

    def _score(self, distance: float, shift: float) -> float:
        return float(np.float32(shift - distance if self.metric == "inner_product" else -distance * distance))

    def _is_small(self, connection: Connection, where: RowFilter | None) -> bool:
        """Return whether so few rows pass the filter that all of them are scored."""
        if where is not None and where.ids is not None and len(where.ids) <= self._exact_rows:
            return True
        condition, parameters = condition_of(where)
        sql = f"SELECT count(*) FROM (SELECT 1 FROM {self._table.name} WHERE {condition} LIMIT %s) AS passing"
        return bool(connection.rows(sql, [*parameters, self._exact_rows + 1])[0][0] <= self._exact_rows)

    def _add_graph(self, connection: Connection) -> None:
        if connection.rows("SELECT to_regclass(%s)", (self._table.graph,))[0][0] is None:
            # Parallel builds take shared memory, of which containers have little.
            connection.run("SET LOCAL max_parallel_maintenance_workers = 0")
            connection.run(f"SET LOCAL maintenance_work_mem = '{_BUILD_MEMORY}'")
            connection.run(self._table.create_graph())

    def _measure(self, connection: Connection, live: int) -> None:
        """Store the share of the 10 nearest other rows that a search finds, with a sample of rows as queries."""
        recall = 1.0
        if live > self._exact_rows:
            sample = connection.rows(f"SELECT id FROM {self._table.name} ORDER BY hashint8(id) LIMIT %s", (_SAMPLE,))
            vectors = self.get([row[0] for row in sample])
            shares = []
            for number, vector in vectors.items():
                found, truth = (
                    {hit for hit, _ in self._nearest(connection, vector, (_SAMPLE_K + 1, exact), None)} - {number}
                    for exact in (False, True)
                )
                shares.append(len(found & truth) / max(1, len(truth)))
            recall = float(np.mean(shares))
        sql = "UPDATE arrowhead_vector_indices SET recall = %s, measured_rows = %s WHERE id = %s"
        connection.run(sql, (round(recall, 4), live, self._table.id))

    def _stored_centre(self) -> Floats | None:
        with self._reading() as connection:
            rows = connection.rows("SELECT centre FROM arrowhead_vector_indices WHERE id = %s", (self._table.id,))
        centre = rows[0][0] if rows else None
        return None if centre is None else np.frombuffer(bytes(centre), np.float32)

    def _known_centre(self) -> Floats:
        """Return the centre, which the first commit of another server may have set since the index was opened."""
        if self._centre is None:
            self._centre = self._stored_centre()
        return np.zeros(self.dim, np.float32) if self._centre is None else self._centre

    def _centre_for(self, connection: Connection, vectors: Floats) -> Floats:
        """Return the centre, which the first vectors of the index determine."""
        if self._centre is None:
            centre = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
            sql = "UPDATE arrowhead_vector_indices SET centre = coalesce(centre, %s) WHERE id = %s RETURNING centre"
            rows: list[Row] = connection.rows(sql, (centre.tobytes(), self._table.id))
            if not rows:
                raise IndexDamaged("the index was deleted while it was written")
            self._centre = np.frombuffer(bytes(rows[0][0]), np.float32)
        return self._centre

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        if self._closed:
            raise IndexFault("the index is closed")
        if self._session is None:
            with self._database.connection() as connection:
                yield connection
            return
        with self._lock:
            yield self._session

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Give the writer's connection inside its transaction, which the first change begins."""
        with self._lock:
            if self._closed:
                raise IndexFault("the index is closed")
            if self._session is None:
                raise IndexFault("the index was opened for reading")
            if self._block is None:
                self._block = contextlib.ExitStack()
                self._block.enter_context(self._session.transaction())
            yield self._session
