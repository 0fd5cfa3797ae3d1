"""Build the one graph that all compared methods query: open and recovered edges, imported like any other graph."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from models.encoders.base import Encoder
from retrieval.graph.linking.dictionary_lookup.dictionary import build_dictionary
from retrieval.graph.linking.linker import Linker
from retrieval.graph.linking.vector_lookup import build_nearest
from retrieval.graph.store.catalog import ImportRequest, build_graph, open_graph
from retrieval.graph.types import GraphStore, Statement
from scripts.evals.graph_files import Row, rows_of

GRAPH: Final = "comparison"
_EDGES: Final = "edges.jsonl.gz"
_MISSING: Final = (None, "", "None")


@dataclass(frozen=True, slots=True)
class Evaluated:
    """``statements`` by row."""

    store: GraphStore
    statements: tuple[Statement, ...]
    linker: Linker
    encoder: Encoder


def build(files: Sequence[Path], identifiers: Mapping[str, str], folder: Path, encoder: Encoder) -> Evaluated:
    """``identifiers``: DOIDs by disease name, case-folded, for edges that come without one. ``folder`` keeps the graph:
    a second build of the same files costs nothing. Raises GraphError and what the encoder raises."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _EDGES
    write_edges(path, (row for file in files for row in as_open(rows_of(file), identifiers)))
    build_graph(folder, ImportRequest(kind="open-edges", files=(path,), name=GRAPH), encoder)
    store = open_graph(folder, GRAPH, encoder.fingerprint)
    linker = Linker(build_dictionary(store), build_nearest(store, encoder))
    return Evaluated(store, statements_of(store), linker, encoder)


def as_open(rows: Iterable[Row], identifiers: Mapping[str, str]) -> Iterator[Row]:
    """Rows of recovered edges ("source", "source_type" …) as those of open ones, with the disease as their subject.

    An edge between two diseases keeps its direction. Edges without a disease are left out.
    """
    for row in rows:
        found = _about_disease(row) if "source_type" in row else row
        if found is None:
            continue
        doid = found.get("doid") or identifiers.get(found["disease"].casefold())
        provenance = "" if found.get("provenance") in _MISSING else found["provenance"]
        yield {**found, "provenance": provenance, **({"doid": doid} if doid else {})}


def _about_disease(row: Row) -> Row | None:
    if row["source_type"] == "Disease":
        disease, kind, other = row["source"], row["target_type"], row["target"]
    elif row["target_type"] == "Disease":
        disease, kind, other = row["target"], row["source_type"], row["source"]
    else:
        return None
    kept: Row = {key: row[key] for key in ("predicate", "provenance", "evidence") if key in row}
    return {**kept, "disease": disease, "target_type": kind, "target": other}


def write_edges(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """The same rows give the same bytes, by which a built graph is known again."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as lines:
        for row in rows:
            lines.write(json.dumps(row, sort_keys=True).encode() + b"\n")


def statements_of(store: GraphStore) -> tuple[Statement, ...]:
    found: dict[int, Statement] = {}
    for node_id in dict.fromkeys(name.node_id for name in store.names()):
        found.update((statement.row, statement) for statement in store.statements(node_id))
    return tuple(found[row] for row in sorted(found))
