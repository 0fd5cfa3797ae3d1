"""Load this project's own tables, for graphs that no other loader supports; docs/graph.md describes the columns.

Nodes: kind, identifier, name; optionally synonyms, source. Edges: source, kind, target; optionally provenance, pmids,
evidence, licence. Several values of a cell are separated by "|".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from retrieval.graph.errors import GraphFileInvalid
from retrieval.graph.loaders.reading import (
    MalformedRecord,
    RecordPosition,
    Report,
    Row,
    check_nesting,
    json_object,
    lines,
    many,
    needed,
    table,
)
from retrieval.graph.types import Edge, Node

_NODE: Final = frozenset({"kind", "identifier", "name"})
_EDGE: Final = frozenset({"source", "kind", "target"})


class PlainLoader:
    """Load this project's tables, recognized by their headers whatever their names."""

    def __init__(self, files: Sequence[Path], report: Report) -> None:
        self._files = files
        self._report = report
        self._place = RecordPosition()

    @property
    def place(self) -> str:
        return str(self._place)

    def nodes(self) -> Iterator[Node]:
        for row in self._rows(_NODE):
            try:
                yield _node(row)
            except MalformedRecord as fault:
                self._report.add(self.place, fault)

    def edges(self) -> Iterator[Edge]:
        for row in self._rows(_EDGE):
            try:
                yield _edge(row)
            except MalformedRecord as fault:
                self._report.add(self.place, fault)

    def _rows(self, columns: frozenset[str]) -> Iterator[Row]:
        for path in self._files:
            self._place.file, self._place.line = path.name, 0
            rows = table(lines(path), self._place, self._report)
            header = next(rows)
            if not (header.keys() >= _NODE or header.keys() >= _EDGE):
                raise GraphFileInvalid(f"{path}: line {self._place.line}: neither the columns of nodes nor of edges")
            if header.keys() >= columns:
                yield from rows


def _node(row: Row) -> Node:
    kind, identifier = needed(row["kind"], "kind"), needed(row["identifier"], "identifier")
    return Node(
        node_id=f"{kind}::{identifier}",
        kind=kind,
        name=needed(row["name"], "name"),
        identifier=identifier,
        synonyms=many(row.get("synonyms", "")),
        source=row.get("source", ""),
    )


def _edge(row: Row) -> Edge:
    evidence = row.get("evidence", "").strip()
    return Edge(
        source_id=needed(row["source"], "source"),
        target_id=needed(row["target"], "target"),
        kind=needed(row["kind"], "kind"),
        provenance=many(row.get("provenance", "")),
        pmids=many(row.get("pmids", "")),
        evidence=check_nesting(json_object(evidence)) if evidence else {},
        licence=row.get("licence", "").strip(),
    )
