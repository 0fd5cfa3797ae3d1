"""Write the statements of a vector table, and its numbers in PostgreSQL's own forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from models.encoders.base import Floats, Metric
from retrieval.index.base import RowFilter

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
