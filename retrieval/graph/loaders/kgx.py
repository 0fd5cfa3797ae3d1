"""Load KGX (Monarch, RTX-KG2, ROBOKOP): nodes and edges in TSV, CSV, JSON lines or JSON, told by their content."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Final, Literal

from retrieval.errors import GRAPH_INVALID, GraphError
from retrieval.formats.json_stream import JsonStream
from retrieval.formats.sources import Line, Source, is_tar, split_lines, tar_members
from retrieval.graph.context.relations import NOT
from retrieval.graph.loaders.reading import (
    FileLoader,
    MalformedRecord,
    Report,
    check_nesting,
    chunks,
    file_faults,
    json_object,
    many,
    names,
    needed,
    parsed,
    table,
)
from retrieval.graph.types import Edge, Node

_NODE_COLUMNS: Final = frozenset({"id", "category"})
_EDGE_COLUMNS: Final = frozenset({"subject", "predicate", "object"})
# Classes without information; a more specific class is preferred if the node has one.
_BROAD: Final = frozenset({"NamedThing", "Entity", "BiologicalEntity", "PhysicalEssence", "OntologyClass"})
_SOURCES: Final = ("primary_knowledge_source", "knowledge_source", "provided_by")
_NOT_EVIDENCE: Final = frozenset(
    {"id", "subject", "predicate", "object", "publications", "category", "license", *_SOURCES}
)
_SUFFIXES: Final = (".tsv", ".csv", ".jsonl", ".json")
_KINDS: Final = ("nodes", "edges")
_MAX_HEADER: Final = 2**20
Kind = Literal["nodes", "edges"]
Record = Mapping[str, Any]


class KgxLoader(FileLoader):
    """Load files of nodes and of edges, or a tar archive of both, gzip-compressed or not.

    Headers and members tell which is which, whatever the names; an edge refers to its ends by identifier.
    """

    def __init__(self, files: Sequence[Path], report: Report) -> None:
        super().__init__(files, report)
        self._found: set[Kind] = set()

    def nodes(self) -> Iterator[Node]:
        yield from parsed(self._records("nodes"), _node, self._place, self._report)

    def edges(self) -> Iterator[Edge]:
        yield from parsed(self._records("edges"), _edge, self._place, self._report)
        if missing := {*_KINDS} - self._found:
            raise GraphError(f"KGX: no file has a header or records of {min(missing)}", GRAPH_INVALID, param="files")

    def _records(self, what: Kind) -> Iterator[Record]:
        for path in self._files:
            with file_faults():
                for name, source, content in _contents(path):
                    self._place.file, self._place.line = name, 0
                    # Each file is read twice, but its records are used once, and its faults are reported then.
                    yield from self._records_of(source, content, what)

    def _records_of(self, source: Source, content: Iterator[bytes], what: Kind) -> Iterator[Record]:
        head, content = _head(content)
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
            yield from self._objects(source, head, content, what)
            return
        lines = split_lines(source, content)
        header = next((line for line in head.splitlines() if line.strip() and not line.startswith(b"#")), b"")
        rows = table(lines, self._place, self._report) if b"\t" in header else self._csv_rows(lines)
        columns = next(rows)
        kind = _kind_of(columns)
        if kind is None:
            raise GraphError(
                f"{self.place}: no KGX header: neither id, category nor subject, predicate, object", GRAPH_INVALID
            )
        self._found.add(kind)
        if kind == what:
            for row in rows:
                yield {name: _unquoted(cell) for name, cell in row.items()} if b"\t" in header else row

    def _csv_rows(self, lines: Iterator[Line]) -> Iterator[dict[str, str]]:
        """Yield the header as ``table`` does, then every row; a cell in quotes may hold line ends."""
        rows = csv.reader(f"{text}\n" for _, text in lines if text is not None)
        header: list[str] = []
        while True:
            try:
                cells = next(rows, None)
            except csv.Error as fault:
                self._report.add(self.place, f"no CSV: {fault}")
                continue
            self._place.line = rows.line_num
            if cells is None:
                break
            if not header:
                header = [cell.strip() for cell in cells]
                yield {name: name for name in header}
            elif len(cells) > len(header):
                self._report.add(self.place, f"{len(cells)} columns, {len(header)} expected")
            elif any(cells):
                yield dict(zip_longest(header, cells, fillvalue=""))
        if not header:
            raise GraphError(f"{self._place.file}: the file is empty", GRAPH_INVALID, param="files")

    def _objects(self, source: Source, head: bytes, content: Iterator[bytes], what: Kind) -> Iterator[Record]:
        """Yield the records of this kind of JSON lines, or of one object with arrays of nodes and edges."""
        if _is_one_object(head):
            for line, value in JsonStream(source, content).member_elements(what, required=False):
                self._place.line = line
                self._found.add(what)
                if isinstance(value, dict):
                    yield value
                else:
                    self._report.add(self.place, "no JSON object")
            return
        for number, text in split_lines(source, content):
            self._place.line = number
            if text is not None and not text.strip():
                continue
            try:
                if text is None:
                    raise MalformedRecord("the line is not valid UTF-8")
                record = json_object(text)
            except MalformedRecord as fault:
                if what == "edges":
                    self._report.add(self.place, fault)
                continue
            kind = _kind_of(record) or "nodes"
            self._found.add(kind)
            if kind == what:
                yield record


def _contents(path: Path) -> Iterator[tuple[str, Source, Iterator[bytes]]]:
    source = Source(path)
    if not is_tar(source):
        yield path.name, source, chunks(path)
        return
    for member in tar_members(source):
        if member.name.endswith(_SUFFIXES):
            yield f"{path.name}/{member.name}", source, member.content


def _head(content: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the beginning of a file, its first line above all, and the whole content again."""
    read: list[bytes] = []
    size = 0
    for chunk in content:
        read.append(chunk)
        size += len(chunk)
        if size > _MAX_HEADER or (b"\n" in chunk and b"".join(read).strip()):
            break
    return b"".join(read), chain(read, content)


def _is_one_object(head: bytes) -> bool:
    """Return whether a file of JSON is one object with its nodes and edges, and not one record a line."""
    first = head.decode("utf-8-sig", "replace").lstrip().partition("\n")[0]
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return True
    return isinstance(value, dict) and any(isinstance(value.get(kind), list) for kind in _KINDS)


def _unquoted(cell: str) -> str:
    """Remove the quotes around a cell and undouble those within.

    KGX has no quotes, but Monarch's tables are written by a program that quotes cells that contain one.
    """
    if len(cell) < 2 or cell[0] != '"' or cell[-1] != '"':
        return cell
    inner = cell[1:-1].replace('""', "\0")
    return cell if '"' in inner else inner.replace("\0", '"')


def _kind_of(columns: Mapping[str, object]) -> Kind | None:
    if columns.keys() >= _EDGE_COLUMNS:
        return "edges"
    return "nodes" if columns.keys() >= _NODE_COLUMNS else None


def _several(value: object) -> tuple[str, ...]:
    """Return the parts of a value: of a cell those between bars, of JSON its list."""
    return many(value) if isinstance(value, str) else names(value)


def _node(record: Record) -> Node:
    identifier = needed(record.get("id"), "id")
    classes = [name.removeprefix("biolink:") for name in _several(record.get("category"))]
    kind = next((name for name in classes if name not in _BROAD), classes[0] if classes else "")
    synonyms = (name for column in ("synonym", "symbol", "full_name") for name in _several(record.get(column)))
    return Node(
        node_id=f"{needed(kind, 'category')}::{identifier}",
        kind=kind,
        name=next(iter(names(record.get("name"))), "") or identifier,
        identifier=identifier,
        synonyms=tuple(dict.fromkeys(synonyms)),
        source="|".join(_several(record.get("provided_by"))) or identifier.partition(":")[0],
    )


def _edge(record: Record) -> Edge:
    predicate = needed(record.get("predicate"), "predicate").removeprefix("biolink:")
    negated = record.get("negated") is True or str(record.get("negated", "")).strip().lower() in {"true", "t", "1"}
    publications = _several(record.get("publications"))
    provenance = [name.removeprefix("infores:") for column in _SOURCES for name in _several(record.get(column))]
    evidence: dict[str, Any] = {
        name: value for name, value in record.items() if value not in ("", None, []) and name not in _NOT_EVIDENCE
    }
    if others := [name for name in publications if not name.startswith("PMID:")]:
        evidence["publications"] = others
    return Edge(
        source_id=needed(record.get("subject"), "subject"),
        target_id=needed(record.get("object"), "object"),
        kind=f"{NOT if negated else ''}{predicate}",
        provenance=tuple(dict.fromkeys(provenance)),
        pmids=tuple(name.removeprefix("PMID:") for name in publications if name.startswith("PMID:")),
        evidence=check_nesting(evidence),
        licence=next(iter(names(record.get("license"))), ""),
    )
