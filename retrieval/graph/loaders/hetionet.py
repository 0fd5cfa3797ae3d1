"""Load Hetionet v1.0, one JSON object with the arrays ``nodes`` and ``edges`` (hetio/hetionet, hetnet/json)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from retrieval.graph.loaders.reading import (
    MalformedRecord,
    RecordPosition,
    Report,
    check_nesting,
    many,
    member_items,
    names,
    needed,
)
from retrieval.graph.types import Edge, Node

_KINDS: Final[Mapping[str, str]] = {
    "Anatomy": "A", "Biological Process": "BP", "Cellular Component": "CC", "Compound": "C", "Disease": "D",
    "Gene": "G", "Molecular Function": "MF", "Pathway": "PW", "Pharmacologic Class": "PC", "Side Effect": "SE",
    "Symptom": "S",
}  # fmt: skip
_VERBS: Final[Mapping[str, str]] = {
    "associates": "a", "binds": "b", "causes": "c", "covaries": "c", "downregulates": "d", "expresses": "e",
    "includes": "i", "interacts": "i", "localizes": "l", "palliates": "p", "participates": "p", "presents": "p",
    "regulates": "r", "resembles": "r", "treats": "t", "upregulates": "u",
}  # fmt: skip
_AWAY: Final = frozenset({"source", "sources", "license", "pubmed_ids"})


class HetionetLoader:
    """Load Hetionet; an edge's type is Hetionet's abbreviation of it (CtD, Gr>G)."""

    def __init__(self, files: Sequence[Path], report: Report) -> None:
        self._files = files
        self._report = report
        self._place = RecordPosition()

    @property
    def place(self) -> str:
        return str(self._place)

    def nodes(self) -> Iterator[Node]:
        for value in self._items("nodes"):
            try:
                yield _node(value)
            except MalformedRecord as fault:
                self._report.add(self.place, fault)

    def edges(self) -> Iterator[Edge]:
        for value in self._items("edges"):
            try:
                yield _edge(value)
            except MalformedRecord as fault:
                self._report.add(self.place, fault)

    def _items(self, member: str) -> Iterator[Any]:
        for path in self._files:
            self._place.file = path.name
            for self._place.line, value in member_items(path, member):
                yield value


def _node(value: Any) -> Node:
    if not isinstance(value, dict):
        raise MalformedRecord("a node is no object")
    kind, identifier = needed(value.get("kind"), "kind"), needed(value.get("identifier"), "identifier")
    data = value.get("data")
    source = names(data.get("source")) if isinstance(data, dict) else ()
    return Node(
        node_id=f"{kind}::{identifier}",
        kind=kind,
        name=needed(value.get("name"), "name"),
        identifier=identifier,
        source=source[0] if source else "",
    )


def _edge(value: Any) -> Edge:
    if not isinstance(value, dict):
        raise MalformedRecord("an edge is no object")
    source_kind, source = _end(value.get("source_id"))
    target_kind, target = _end(value.get("target_id"))
    data = value.get("data")
    data = data if isinstance(data, dict) else {}
    verb = needed(value.get("kind"), "kind")
    arrow = ">" if value.get("direction") == "forward" else ""
    short = (_KINDS.get(source_kind), _VERBS.get(verb), _KINDS.get(target_kind))
    kind = f"{short[0]}{short[1]}{arrow}{short[2]}" if all(short) else verb
    licence = names(data.get("license"))
    return Edge(
        source_id=f"{source_kind}::{source}",
        target_id=f"{target_kind}::{target}",
        kind=kind,
        provenance=tuple(dict.fromkeys((*names(data.get("sources")), *names(data.get("source"))))),
        pmids=tuple(p for name in names(data.get("pubmed_ids")) for p in many(name)),
        evidence=check_nesting({key: value for key, value in data.items() if key not in _AWAY}),
        licence=licence[0] if licence else "",
    )


def _end(value: Any) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise MalformedRecord("an edge's end is no pair of kind and identifier")
    return needed(value[0], "an end's kind"), needed(value[1], "an end's identifier")
