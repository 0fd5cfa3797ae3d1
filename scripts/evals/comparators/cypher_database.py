"""Store a graph in the embedded Cypher database Ladybug, the successor of Kùzu. The only module that imports it.

Nodes become one table for each kind, edges one for each type, with the names that the graph has. Edges have the
properties ``sources`` (separated by "; "), ``pmids``, ``p_value`` (the smallest) and ``evidence`` (JSON).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from retrieval.graph.context.render import evidence_json
from retrieval.graph.types import Node, Statement
from scripts.evals.comparators.cypher_guard import CypherFailed, CypherRefused, checked
from server.methods.kg_rag.report import p_value

NODE_PROPERTIES: Final = ("id", "name", "identifier", "source")
EDGE_PROPERTIES: Final = (("sources", "STRING"), ("pmids", "STRING"), ("p_value", "DOUBLE"), ("evidence", "STRING"))
_BATCH: Final = 1_000
_BUFFER_BYTES: Final = 256 * 2**20
Ends = tuple[str, str]
T = TypeVar("T")


def is_installed() -> bool:
    return importlib.util.find_spec("ladybug") is not None


@dataclass(frozen=True, slots=True)
class Schema:
    """Kinds of nodes, and of each type of edge the kinds of its ends, in the order of the graph."""

    nodes: tuple[str, ...]
    edges: Mapping[str, tuple[Ends, ...]]


class Rows(NamedTuple):
    """``complete`` False: more rows than were asked for."""

    rows: list[dict[str, Any]]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one query."""

    rows: int = 100
    seconds: float = 5.0
    threads: int = 1


def schema_of(statements: Iterable[Statement]) -> Schema:
    nodes: dict[str, None] = {}
    edges: dict[str, dict[Ends, None]] = {}
    for statement in statements:
        kinds = (statement.source.kind, statement.target.kind)
        nodes.update(dict.fromkeys(kinds))
        edges.setdefault(statement.edge.kind, {})[kinds] = None
    return Schema(tuple(nodes), {kind: tuple(ends) for kind, ends in edges.items()})


class CypherDatabase:
    """Open for reading; only queries that the guard lets through reach it. Not for several threads at once."""

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        """Raises CypherFailed: no such database."""
        import ladybug

        self._limits = limits or Limits()
        try:
            self._database = ladybug.Database(
                path, read_only=True, buffer_pool_size=_BUFFER_BYTES, max_num_threads=self._limits.threads
            )
            self._connection = ladybug.Connection(self._database)
        except RuntimeError as fault:
            raise CypherFailed(f"{path} cannot be opened: {fault}") from fault
        self._connection.set_query_timeout(int(self._limits.seconds * 1_000))

    def read(self, query: str) -> Rows:
        """
        Raises:
            CypherRefused: it would do more than read. CypherFailed: it cannot be run, or not in time.
        """
        text = checked(query)
        try:
            result = self._connection.execute(text)
            if isinstance(result, list):
                raise CypherRefused("one statement only")
            names = result.get_column_names()
            rows: list[dict[str, Any]] = []
            while result.has_next() and len(rows) < self._limits.rows:
                rows.append(_plain(dict(zip(names, result.get_next(), strict=True))))
            return Rows(rows, not result.has_next())
        except RuntimeError as fault:
            raise CypherFailed(str(fault)) from fault

    def close(self) -> None:
        self._connection.close()
        self._database.close()


def write_database(path: Path, statements: Sequence[Statement]) -> Schema:
    """A new database of these statements at ``path``, which must not be there. Raises CypherFailed."""
    import ladybug

    schema = schema_of(statements)
    if path.exists():
        raise CypherFailed(f"{path} is there already")
    try:
        database = ladybug.Database(path, buffer_pool_size=_BUFFER_BYTES, max_num_threads=1)
        connection = ladybug.Connection(database)
        for line in _tables(schema):
            connection.execute(line)
        for query, rows in _inserts(statements):
            connection.execute(query, {"rows": rows})
        connection.close()
        database.close()
    except RuntimeError as fault:
        raise CypherFailed(f"{path} cannot be written: {fault}") from fault
    return schema


def _tables(schema: Schema) -> Iterator[str]:
    properties = ", ".join(f"{name} STRING" for name in NODE_PROPERTIES[1:])
    for kind in schema.nodes:
        yield f"CREATE NODE TABLE {quoted(kind)} (id STRING PRIMARY KEY, {properties})"
    properties = ", ".join(f"{name} {kind}" for name, kind in EDGE_PROPERTIES)
    for kind, pairs in schema.edges.items():
        ends = ", ".join(f"FROM {quoted(source)} TO {quoted(target)}" for source, target in pairs)
        yield f"CREATE REL TABLE {quoted(kind)} ({ends}, {properties})"


def _inserts(statements: Sequence[Statement]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    nodes: dict[str, dict[str, Node]] = {}
    edges: dict[tuple[str, Ends], list[Statement]] = {}
    for statement in statements:
        for node in (statement.source, statement.target):
            nodes.setdefault(node.kind, {})[node.node_id] = node
        kinds = (statement.source.kind, statement.target.kind)
        edges.setdefault((statement.edge.kind, kinds), []).append(statement)
    fields = ", ".join(f"{name}: row.{name}" for name in NODE_PROPERTIES)
    for kind, of_kind in nodes.items():
        for batch in _batches(of_kind.values()):
            yield f"UNWIND $rows AS row CREATE (:{quoted(kind)} {{{fields}}})", [_node_row(node) for node in batch]
    # Cast, because a column of nulls alone has no type of its own.
    fields = ", ".join(f"{name}: CAST(row.{name} AS {kind})" for name, kind in EDGE_PROPERTIES)
    for (kind, (source, target)), of_type in edges.items():
        query = (
            f"UNWIND $rows AS row MATCH (a:{quoted(source)} {{id: row.a}}), (b:{quoted(target)} {{id: row.b}}) "
            f"CREATE (a)-[:{quoted(kind)} {{{fields}}}]->(b)"
        )
        for part in _batches(of_type):
            yield query, [_edge_row(statement) for statement in part]


def _node_row(node: Node) -> dict[str, Any]:
    return {"id": node.node_id, "name": node.name, "identifier": node.identifier, "source": node.source}


def _edge_row(statement: Statement) -> dict[str, Any]:
    return {
        "a": statement.edge.source_id,
        "b": statement.edge.target_id,
        "sources": "; ".join(statement.edge.provenance),
        "pmids": "; ".join(statement.edge.pmids),
        "p_value": p_value(statement),
        "evidence": evidence_json(statement),
    }


def quoted(name: str) -> str:
    """Names of kinds hold slashes, colons and blanks. Raises CypherFailed for one that cannot be quoted."""
    if "`" in name or not name:
        raise CypherFailed(f"{name!r} cannot name a table")
    return f"`{name}`"


def _plain(value: Any) -> Any:
    """Nodes and edges as their properties, without the database's own numbers."""
    if isinstance(value, Mapping):
        kept = {key: _plain(part) for key, part in value.items() if not str(key).startswith("_")}
        return {"type": value["_LABEL"], **kept} if "_LABEL" in value else kept
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, _BATCH)):
        yield batch
