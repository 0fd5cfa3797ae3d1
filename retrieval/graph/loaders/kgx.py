"""Load KGX tables (Monarch): ``*_nodes.tsv`` and ``*_edges.tsv``, or a tar archive of both, gzip-compressed or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from retrieval.formats.sources import Line, Source, is_tar, split_lines, tar_members
from retrieval.graph.context.verbs import NOT
from retrieval.graph.errors import GraphFileInvalid
from retrieval.graph.loaders.reading import (
    MalformedRecord,
    RecordPosition,
    Report,
    Row,
    file_faults,
    lines,
    many,
    needed,
    table,
)
from retrieval.graph.types import Edge, Node

_NODE: Final = frozenset({"id", "category"})
_EDGE: Final = frozenset({"subject", "predicate", "object"})
# Classes without information; a more specific class is preferred if the node has one.
_BROAD: Final = frozenset({"NamedThing", "Entity", "BiologicalEntity", "PhysicalEssence", "OntologyClass"})
_SOURCES: Final = ("primary_knowledge_source", "knowledge_source", "provided_by")
_AWAY: Final = frozenset({"id", "subject", "predicate", "object", "publications", "category", "license", *_SOURCES})
What = Literal["nodes", "edges"]


class KgxLoader:
    """Load KGX tables, recognized by their headers whatever their names; an edge refers to its ends by identifier."""

    def __init__(self, files: Sequence[Path], report: Report) -> None:
        self._files = files
        self._report = report
        self._place = RecordPosition()
        self._found: set[What] = set()

    @property
    def place(self) -> str:
        return str(self._place)

    def nodes(self) -> Iterator[Node]:
        for row in self._rows("nodes"):
            try:
                yield _node(row)
            except MalformedRecord as fault:
                self._report.add(self.place, fault)

    def edges(self) -> Iterator[Edge]:
        for row in self._rows("edges"):
            try:
                yield _edge(row)
            except MalformedRecord as fault:
                self._report.add(self.place, fault)
        if missing := {"nodes", "edges"} - self._found:
            raise GraphFileInvalid(f"KGX: no file has a header of {missing.pop()}", param="files")

    def _rows(self, what: What) -> Iterator[Row]:
        for path in self._files:
            for name, source in _tables(path):
                self._place.file, self._place.line = name, 0
                # Each table is read twice, but its records are used once, and its faults are reported then.
                yield from self._rows_of_kind(source, what)

    def _rows_of_kind(self, source: Iterator[Line], what: What) -> Iterator[Row]:
        rows = table(source, self._place, self._report)
        header = next(rows)
        kind = _what(header)
        if kind is None:
            raise GraphFileInvalid(f"{self.place}: no KGX header: neither id, category nor subject, predicate, object")
        self._found.add(kind)
        if kind == what:
            for row in rows:
                yield {name: _unquoted(cell) for name, cell in row.items()}


def _tables(path: Path) -> Iterator[tuple[str, Iterator[Line]]]:
    with file_faults():
        source = Source(path)
        if not is_tar(source):
            yield path.name, lines(path)
            return
        for member in tar_members(source):
            if member.name.endswith(".tsv"):
                yield f"{path.name}/{member.name}", split_lines(source, member.content)


def _unquoted(cell: str) -> str:
    """Remove the quotes around a cell and undouble those within.

    KGX has no quotes, but Monarch's tables are written by a program that quotes cells that contain one.
    """
    if len(cell) < 2 or cell[0] != '"' or cell[-1] != '"':
        return cell
    inner = cell[1:-1].replace('""', "\0")
    return cell if '"' in inner else inner.replace("\0", '"')


def _what(header: Mapping[str, str]) -> What | None:
    if header.keys() >= _EDGE:
        return "edges"
    return "nodes" if header.keys() >= _NODE else None


def _node(row: Row) -> Node:
    identifier = needed(row["id"], "id")
    classes = [name.removeprefix("biolink:") for name in many(row["category"])]
    kind = next((name for name in classes if name not in _BROAD), classes[0] if classes else "")
    provided_by = row.get("provided_by", "")
    return Node(
        node_id=f"{needed(kind, 'category')}::{identifier}",
        kind=kind,
        name=row.get("name", "").strip() or identifier,
        identifier=identifier,
        synonyms=many("|".join(row.get(column, "") for column in ("synonym", "symbol", "full_name"))),
        source=provided_by or identifier.partition(":")[0],
    )


def _edge(row: Row) -> Edge:
    predicate = needed(row["predicate"], "predicate").removeprefix("biolink:")
    negated = row.get("negated", "").strip().lower() in {"true", "t", "1"}
    publications = many(row.get("publications", ""))
    provenance = [name.removeprefix("infores:") for column in _SOURCES for name in many(row.get(column, ""))]
    evidence: dict[str, object] = {name: cell for name, cell in row.items() if cell and name not in _AWAY}
    if others := [name for name in publications if not name.startswith("PMID:")]:
        evidence["publications"] = others
    return Edge(
        source_id=needed(row["subject"], "subject"),
        target_id=needed(row["object"], "object"),
        kind=f"{NOT if negated else ''}{predicate}",
        provenance=tuple(dict.fromkeys(provenance)),
        pmids=tuple(name.removeprefix("PMID:") for name in publications if name.startswith("PMID:")),
        evidence=evidence,
        licence=row.get("license", ""),
    )
