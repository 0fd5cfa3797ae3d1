"""Define the SQLite schema of a graph and the names of the files beside it."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from retrieval.graph.types import Edge, Node

SCHEMA_VERSION: Final = 1
GRAPH_FILE: Final = "graph.sqlite"
VECTOR_FILE: Final = "vectors.npy"
OFFSET_FILE: Final = "offsets.npy"
ROW_FILE: Final = "rows.npy"
MANIFEST_FILE: Final = "manifest.json"
FILES: Final = (GRAPH_FILE, VECTOR_FILE, OFFSET_FILE, ROW_FILE)

# ``n`` and ``row`` count from 0 without gaps: vectors are indexed by row, offsets by n.
TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE node (n INTEGER PRIMARY KEY, node_id TEXT NOT NULL UNIQUE, kind INTEGER NOT NULL, name TEXT NOT NULL,
    identifier TEXT NOT NULL, source INTEGER NOT NULL);
CREATE TABLE name (node INTEGER NOT NULL, place INTEGER NOT NULL, name TEXT NOT NULL, fold TEXT NOT NULL,
    PRIMARY KEY (node, place)) WITHOUT ROWID;
CREATE TABLE edge (row INTEGER PRIMARY KEY, source INTEGER NOT NULL, target INTEGER NOT NULL, kind INTEGER NOT NULL,
    provenance TEXT NOT NULL, pmids TEXT NOT NULL, evidence TEXT NOT NULL, licence INTEGER NOT NULL);
"""
INDICES: Final = """
CREATE INDEX node_identifier ON node (identifier);
CREATE INDEX name_fold ON name (fold);
CREATE INDEX node_kind ON node (kind);
"""
NODE_COLUMNS: Final = "node.n, node.node_id, kinds.text, node.name, node.identifier, origins.text"
NODE_FROM: Final = "node JOIN word AS kinds ON kinds.id = node.kind JOIN word AS origins ON origins.id = node.source"
EDGE_COLUMNS: Final = (
    "edge.row, edge.source, edge.target, kinds.text, edge.provenance, edge.pmids, edge.evidence, terms.text"
)
EDGE_FROM: Final = "edge JOIN word AS kinds ON kinds.id = edge.kind JOIN word AS terms ON terms.id = edge.licence"


def fold(name: str) -> str:
    """Normalize a name for comparison, ignoring letter case and runs of white space."""
    return " ".join(name.casefold().split())


def packed(value: Any) -> str:
    """Serialize to ASCII JSON, so that lone surrogates survive; a non-finite number becomes null, as JSON has none."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), sort_keys=True)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"), sort_keys=True)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def node_from(row: Sequence[Any], synonyms: Sequence[str] = ()) -> Node:
    """Build a node from a row of NODE_COLUMNS."""
    _, node_id, kind, name, identifier, source = row
    return Node(node_id=node_id, kind=kind, name=name, identifier=identifier, synonyms=tuple(synonyms), source=source)


def edge_from(row: Sequence[Any], source_id: str, target_id: str) -> Edge:
    """Build an edge from a row of EDGE_COLUMNS."""
    _, _, _, kind, provenance, pmids, evidence, licence = row
    return Edge(
        source_id=source_id,
        target_id=target_id,
        kind=kind,
        provenance=tuple(json.loads(provenance)),
        pmids=tuple(json.loads(pmids)),
        evidence=json.loads(evidence),
        licence=licence,
    )


def meta_of(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT key, value FROM meta"))
