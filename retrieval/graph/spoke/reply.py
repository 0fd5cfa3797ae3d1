"""Parse replies of SPOKE's /neighborhood, flat lists of nodes and edges, independently of HTTP.

An item is ``{"data": {id, neo4j_type, neo4j_root?, properties}}``; an edge also has ``source`` and ``target``, ids of
nodes of the same reply.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from retrieval.graph.loaders.reading import (
    FileLoader,
    MalformedRecord,
    Report,
    array_items,
    check_nesting,
    lines,
    names,
    rows,
)
from retrieval.graph.types import Edge, Node

# The most descriptive name first: a protein's ``name`` is the mnemonic of its entry.
_LABELS: Final[Mapping[str, tuple[str, ...]]] = {"Protein": ("description", "name", "identifier")}
_LABEL: Final = ("name", "identifier")
_SOURCES: Final = ("sources", "source")
_PMIDS: Final = ("pmid_list", "pmids", "pubmed_ids", "pmid", "pubmed")
_PREPRINTS: Final = ("preprint_list", "preprints")
_NOT_EVIDENCE: Final = frozenset({"license", *_SOURCES, *_PMIDS})
_MAX_SYNONYMS: Final = 200
NO_SOURCE: Final = "SPOKE-KG"


@dataclass(slots=True)
class Reply:
    """Hold a parsed reply.

    ``nodes`` by the reply's own ids; ``root``: id of the requested node. ``faults``: reasons of the skipped items.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    root: str = ""
    faults: list[str] = field(default_factory=list)


def read_reply(items: Iterable[Any]) -> Reply:
    """Parse a reply, all nodes before the edges, because an edge may precede its ends."""
    reply = Reply()
    waiting: list[dict[str, Any]] = []
    for number, item in enumerate(items):
        try:
            data = data_of(item)
            if is_edge(data):
                waiting.append(data)
                continue
            key = item_id(data.get("id"))
            reply.nodes[key] = node_of(data)
            if data.get("neo4j_root") == 1 and not reply.root:
                reply.root = key
        except MalformedRecord as fault:
            reply.faults.append(f"item {number}: {fault}")
    for data in waiting:
        try:
            reply.edges.append(edge_of(data, reply.nodes))
        except MalformedRecord as fault:
            reply.faults.append(f"edge {data.get('id')}: {fault}")
    return reply


def data_of(item: Any) -> dict[str, Any]:
    data = item.get("data") if isinstance(item, dict) else None
    if not isinstance(data, dict) or names(kind := data.get("neo4j_type")) != (kind,):
        raise MalformedRecord("no object with data and neo4j_type")
    return data


def is_edge(data: Mapping[str, Any]) -> bool:
    return "source" in data and "target" in data


def item_id(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        raise MalformedRecord("the id is no number or text")
    return str(value)


def node_of(data: Mapping[str, Any]) -> Node:
    """Parse a node, accepting numbers and lists as SPOKE sends them.

    Entrez ids are numbers; names may be either.
    """
    kind, properties = data["neo4j_type"], _properties(data)
    known = {key: names(properties.get(key)) for key in ("identifier", "name", "description")}
    label = next((known[key][0] for key in _LABELS.get(kind, _LABEL) if known.get(key)), "")
    if not known["identifier"] and not label:
        raise MalformedRecord(f"a {kind} has neither name nor identifier")
    identifier = known["identifier"][0] if known["identifier"] else label
    others = (*known["name"], *known["description"][: kind == "Gene"], *names(properties.get("synonyms")))
    source = [name for key in _SOURCES for name in names(properties.get(key))]
    return Node(
        node_id=f"{kind}::{identifier}",
        kind=kind,
        name=label,
        identifier=identifier,
        synonyms=tuple(dict.fromkeys(name for name in others if name != label))[:_MAX_SYNONYMS],
        source=source[0] if source else "",
    )


def edge_of(data: Mapping[str, Any], nodes: Mapping[str, Node]) -> Edge:
    """Parse an edge, with every source that it names in ``sources`` or ``source``."""
    properties = _properties(data)
    ends = [nodes.get(item_id(data.get(key))) for key in ("source", "target")]
    if ends[0] is None or ends[1] is None:
        raise MalformedRecord("an end is not among the nodes")
    preprints = [name for key in _PREPRINTS for name in names(properties.get(key))]
    sources = [name for key in _SOURCES for name in names(properties.get(key))]
    pmids = tuple(dict.fromkeys(name for key in _PMIDS for name in names(properties.get(key))))
    # Articles and preprints are sources of their own; SPOKE itself counts as one only if there is no other.
    provenance = tuple(dict.fromkeys((*sources, *preprints))) or (() if pmids else (NO_SOURCE,))
    licence = names(properties.get("license"))
    return Edge(
        source_id=ends[0].node_id,
        target_id=ends[1].node_id,
        kind=data["neo4j_type"],
        provenance=provenance,
        pmids=pmids,
        evidence=check_nesting({key: value for key, value in properties.items() if key not in _NOT_EVIDENCE}),
        licence=licence[0] if licence else "",
    )


def _properties(data: Mapping[str, Any]) -> Mapping[str, Any]:
    found = data.get("properties")
    return found if isinstance(found, dict) else {}


_NEW_REPLY: Final = object()


class SpokeLoader(FileLoader):
    """Load SPOKE replies; an edge's ends are in its own reply, because SPOKE's numbers are not valid outside it.

    ``edges`` reports malformed items.
    """

    def nodes(self) -> Iterator[Node]:
        for item in self._items(Report()):
            try:
                if item is not _NEW_REPLY and not is_edge(data := data_of(item)):
                    yield node_of(data)
            except MalformedRecord:
                continue

    def edges(self) -> Iterator[Edge]:
        known: dict[str, Node] = {}
        waiting: list[tuple[str, int, dict[str, Any]]] = []
        for item in self._items(self._report):
            if item is _NEW_REPLY:
                yield from self._late(waiting, known)
                known, waiting = {}, []
                continue
            try:
                data = data_of(item)
                if not is_edge(data):
                    known[item_id(data.get("id"))] = node_of(data)
                elif {item_id(data.get("source")), item_id(data.get("target"))} <= known.keys():
                    yield edge_of(data, known)
                else:
                    waiting.append((self._place.file, self._place.line, data))
            except MalformedRecord as fault:
                self._report.add(self.place, fault)
        yield from self._late(waiting, known)

    def _late(self, waiting: Sequence[tuple[str, int, dict[str, Any]]], known: dict[str, Node]) -> Iterator[Edge]:
        """Yield the edges that preceded their ends."""
        here = self._place.file, self._place.line
        for self._place.file, self._place.line, data in waiting:
            try:
                yield edge_of(data, known)
            except MalformedRecord as fault:
                self._report.add(self.place, fault)
        self._place.file, self._place.line = here

    def _items(self, report: Report) -> Iterator[Any]:
        for path in self._files:
            self._place.file, self._place.line = path.name, 0
            yield _NEW_REPLY
            if _is_one_array(path):
                for self._place.line, item in array_items(path):
                    yield item
                continue
            for text in rows(lines(path), self._place, report):
                try:
                    value = json.loads(text)
                except (ValueError, RecursionError) as fault:
                    report.add(self.place, f"no JSON: {fault}")
                    continue
                if isinstance(value, list):
                    yield _NEW_REPLY
                    yield from value
                else:
                    yield value


def _is_one_array(path: Path) -> bool:
    """Return True if the file is one array.

    A first line that is a whole reply, followed by another line, makes it JSON lines.
    """
    found = (text for _, text in lines(path) if text is None or text.strip())
    first = next(found, None) or ""
    if not first.lstrip("\ufeff \t").startswith("["):
        return False
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return True
    return next(found, None) is None
