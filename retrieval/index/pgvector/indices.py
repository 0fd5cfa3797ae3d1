"""Find, make and remove the vector indices of shared namespaces in the database."""

from __future__ import annotations

import json
from dataclasses import dataclass

from retrieval.errors import BACKEND_UNAVAILABLE, INDEX_MISMATCH, IndexDamaged, IndexFault
from retrieval.index.pgvector.index import EXACT_ROWS, PgVectorIndex, VectorTable
from retrieval.index.spec import IndexSpec
from retrieval.storage.database import Connection, Row, SharedDatabase


@dataclass(frozen=True, slots=True)
class IndexKey:
    """Name an index: its namespace, and the name that its folder would have."""

    namespace: str
    name: str


class PgVectorIndices:
    """Open the vector indices of namespaces.

    Every method raises DatabaseUnavailable where the database does not answer or refuses.
    """

    def __init__(self, database: SharedDatabase, *, exact_rows: int = EXACT_ROWS) -> None:
        self._database = database
        self._exact_rows = exact_rows

    def open(self, index_key: IndexKey, spec: IndexSpec, *, write: bool) -> PgVectorIndex:
        """Open an index; a writer makes one that is not there.

        Raises:
            IndexDamaged: there is no such index.
            IndexFault: it has another encoder, dimension or metric; the database has no pgvector of 0.8 or newer.
        """
        found = self._row(index_key)
        if found is None:
            if not write:
                raise IndexDamaged(f"there are no {index_key.name} of {index_key.namespace} in the database")
            self._create(index_key, spec)
            found = self._row(index_key)
        if found is None:
            raise IndexDamaged(f"namespace {index_key.namespace} was deleted meanwhile")
        number, dim, metric, encoder = found[:4]
        if (dim, metric, encoder) != (spec.dim, spec.metric, _encoder_text(spec)):
            raise IndexFault(
                f"{index_key.name} of {index_key.namespace} are of another encoder, dimension or metric", INDEX_MISMATCH
            )
        table = VectorTable(number, dim, metric)
        return PgVectorIndex(self._database, table, write=write, exact_rows=self._exact_rows)

    def exists(self, index_key: IndexKey) -> bool:
        return self._row(index_key) is not None

    def names(self, namespace: str) -> list[str]:
        """Return the names of the indices of a namespace in alphabetical order."""
        sql = (
            "SELECT i.place FROM arrowhead_vector_indices i JOIN arrowhead_namespaces n ON n.id = i.namespace "
            "WHERE n.name = %s ORDER BY i.place"
        )
        with self._database.connection() as connection:
            return [str(row[0]) for row in connection.rows(sql, (namespace,))]

    def rows(self, index_key: IndexKey) -> int:
        """Return the rows of the last commit, 0 where there is no such index."""
        found = self._row(index_key)
        return 0 if found is None else int(found[4])

    def recall(self, index_key: IndexKey) -> float | None:
        """Return the recall at 10 that was measured last, None where it is not known."""
        found = self._row(index_key)
        return None if found is None or found[5] is None else float(found[5])

    def remove(self, index_key: IndexKey) -> None:
        found = self._row(index_key)
        if found is None:
            return
        with self._database.connection() as connection, connection.transaction():
            connection.run(f"DROP TABLE IF EXISTS {VectorTable(found[0], found[1], found[2]).name}")
            connection.run("DELETE FROM arrowhead_vector_indices WHERE id = %s", (found[0],))

    def _row(self, index_key: IndexKey) -> Row | None:
        sql = (
            "SELECT i.id, i.dim, i.metric, i.encoder, i.live_rows, i.recall FROM arrowhead_vector_indices i "
            "JOIN arrowhead_namespaces n ON n.id = i.namespace WHERE n.name = %s AND i.place = %s"
        )
        with self._database.connection() as connection:
            rows = connection.rows(sql, (index_key.namespace, index_key.name))
        return rows[0] if rows else None

    def _create(self, index_key: IndexKey, spec: IndexSpec) -> None:
        with self._database.connection() as connection:
            _require_extension(connection)
            with connection.transaction():
                rows = connection.rows(
                    "INSERT INTO arrowhead_vector_indices (namespace, place, dim, metric, encoder) "
                    "SELECT id, %s, %s, %s, %s FROM arrowhead_namespaces WHERE name = %s "
                    "ON CONFLICT (namespace, place) DO NOTHING RETURNING id",
                    (index_key.name, spec.dim, spec.metric, _encoder_text(spec), index_key.namespace),
                )
                for statement in VectorTable(rows[0][0], spec.dim, spec.metric).create() if rows else ():
                    connection.run(statement)


def drop_indices(connection: Connection, namespace: int) -> None:
    """Remove all vector indices of a namespace, inside the caller's transaction."""
    rows = connection.rows("SELECT id, dim, metric FROM arrowhead_vector_indices WHERE namespace = %s", (namespace,))
    for number, dim, metric in rows:
        connection.run(f"DROP TABLE IF EXISTS {VectorTable(number, dim, metric).name}")


def _require_extension(connection: Connection) -> None:
    """Make the extension known to the database.

    Raises:
        IndexFault: it is not installed at the database's server, or too old.
    """
    rows = connection.rows("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'")
    if not rows:
        raise IndexFault(
            "the database's server has no pgvector; install 0.8 or newer there", BACKEND_UNAVAILABLE, param="backend"
        )
    connection.run("CREATE EXTENSION IF NOT EXISTS vector")
    (version,) = connection.rows("SELECT extversion FROM pg_extension WHERE extname = 'vector'")[0]
    if tuple(map(int, str(version).split(".")[:2])) < (0, 8):
        raise IndexFault(f"the database has pgvector {version}, 0.8 needed", BACKEND_UNAVAILABLE, param="backend")


def _encoder_text(spec: IndexSpec) -> str:
    return json.dumps(spec.encoder_json(), sort_keys=True)
