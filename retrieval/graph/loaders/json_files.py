"""Load graphs from JSON: Hetionet, which is one object, and edges of diseases, one object a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from retrieval.graph.loaders.reading import (
    FileLoader,
    MalformedRecord,
    Report,
    check_nesting,
    json_object,
    lines,
    many,
    member_items,
    names,
    needed,
    parsed,
    rows,
)
from retrieval.graph.types import Edge, Node

_HETIONET_KINDS: Final[Mapping[str, str]] = {
    "Anatomy": "A", "Biological Process": "BP", "Cellular Component": "CC", "Compound": "C", "Disease": "D",
    "Gene": "G", "Molecular Function": "MF", "Pathway": "PW", "Pharmacologic Class": "PC", "Side Effect": "SE",
    "Symptom": "S",
}  # fmt: skip
_HETIONET_VERBS: Final[Mapping[str, str]] = {
    "associates": "a", "binds": "b", "causes": "c", "covaries": "c", "downregulates": "d", "expresses": "e",
    "includes": "i", "interacts": "i", "localizes": "l", "palliates": "p", "participates": "p", "presents": "p",
    "regulates": "r", "resembles": "r", "treats": "t", "upregulates": "u",
}  # fmt: skip
_HETIONET_NOT_EVIDENCE: Final = frozenset({"source", "sources", "license", "pubmed_ids"})
_DISEASE: Final = "Disease"
_DISEASE_EDGE_KINDS: Final[Mapping[tuple[str, str], str]] = {
    ("associates", "Gene"): "ASSOCIATES_DaG",
    ("isa", "Disease"): "ISA_DiD",
    ("localizes", "Anatomy"): "LOCALIZES_DlA",
    ("palliates", "Compound"): "PALLIATES_CpD",
    ("presents", "Symptom"): "PRESENTS_DpS",
    ("resembles", "Disease"): "RESEMBLES_DrD",
    ("treats", "Compound"): "TREATS_CtD",
}
# PharmacotherapyDB: "DM" is disease-modifying, "SYM" only relieves symptoms, "NOT" is no indication.
_SYMPTOMATIC: Final = "SYM"
_NO_INDICATION: Final = "NOT"


class HetionetLoader(FileLoader):
    """Load Hetionet v1.0 (hetio/hetionet, hetnet/json); an edge's type is Hetionet's abbreviation of it (CtD, Gr>G)."""

    def nodes(self) -> Iterator[Node]:
        yield from parsed(self._items("nodes"), _hetionet_node, self._place, self._report)

    def edges(self) -> Iterator[Edge]:
        yield from parsed(self._items("edges"), _hetionet_edge, self._place, self._report)

    def _items(self, member: str) -> Iterator[Any]:
        for path in self._files:
            self._place.file = path.name
            for self._place.line, value in member_items(path, member):
                yield value


def _hetionet_node(value: Any) -> Node:
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


def _hetionet_edge(value: Any) -> Edge:
    if not isinstance(value, dict):
        raise MalformedRecord("an edge is no object")
    source_kind, source = _hetionet_end(value.get("source_id"))
    target_kind, target = _hetionet_end(value.get("target_id"))
    data = value.get("data")
    data = data if isinstance(data, dict) else {}
    verb = needed(value.get("kind"), "kind")
    arrow = ">" if value.get("direction") == "forward" else ""
    short = (_HETIONET_KINDS.get(source_kind), _HETIONET_VERBS.get(verb), _HETIONET_KINDS.get(target_kind))
    kind = f"{short[0]}{short[1]}{arrow}{short[2]}" if all(short) else verb
    licence = names(data.get("license"))
    return Edge(
        source_id=f"{source_kind}::{source}",
        target_id=f"{target_kind}::{target}",
        kind=kind,
        provenance=tuple(dict.fromkeys((*names(data.get("sources")), *names(data.get("source"))))),
        pmids=tuple(p for name in names(data.get("pubmed_ids")) for p in many(name)),
        evidence=check_nesting({key: value for key, value in data.items() if key not in _HETIONET_NOT_EVIDENCE}),
        licence=licence[0] if licence else "",
    )


def _hetionet_end(value: Any) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise MalformedRecord("an edge's end is no pair of kind and identifier")
    return needed(value[0], "an end's kind"), needed(value[1], "an end's identifier")


class OpenEdgesLoader(FileLoader):
    """Load edges of diseases; a target has no identifier in these files and is identified by its gene symbol or name.

    Fields: disease, doid, predicate, target_type, target, provenance, evidence, licence.
    Memory grows with the number of diseases (their identifiers by name), not of edges.
    """

    def __init__(self, files: Sequence[Path], report: Report) -> None:
        super().__init__(files, report)
        self._doids: dict[str, str] = {}

    def nodes(self) -> Iterator[Node]:
        for row in self._rows(Report()):
            if len(doid := names(row.get("doid"))) == 1 and len(name := names(row.get("disease"))) == 1:
                self._doids.setdefault(name[0], doid[0])
        for row in self._rows(Report()):
            try:
                disease = needed(row.get("disease"), "disease")
                yield self._node(_DISEASE, disease, row)
                kind = needed(row.get("target_type"), "target_type")
                yield self._node(kind, needed(row.get("target"), "target"), row)
            except MalformedRecord:
                continue

    def edges(self) -> Iterator[Edge]:
        yield from parsed(self._rows(self._report), self._edge, self._place, self._report)

    def _rows(self, report: Report) -> Iterator[dict[str, Any]]:
        for path in self._files:
            self._place.file = path.name
            for text in rows(lines(path), self._place, report):
                try:
                    yield json_object(text)
                except MalformedRecord as fault:
                    report.add(self.place, fault)

    def _node(self, kind: str, name: str, row: Mapping[str, Any]) -> Node:
        identifier, source = name, ""
        if kind == _DISEASE:
            identifier = self._doids.get(name, name)
            source = "Disease Ontology" if identifier != name else ""
        elif kind == "Compound" and (drugbank := names(_open_evidence(row).get("drugbank_id"))):
            identifier, source = drugbank[0], "DrugBank"
        return Node(node_id=f"{kind}::{identifier}", kind=kind, name=name, identifier=identifier, source=source)

    def _edge(self, row: Mapping[str, Any]) -> Edge:
        evidence = check_nesting(_open_evidence(row))
        target_type, predicate = (
            needed(row.get("target_type"), "target_type"),
            needed(row.get("predicate"), "predicate"),
        )
        if predicate == "treats" and evidence.get("category") == _NO_INDICATION:
            raise MalformedRecord("it is listed as no indication")
        if predicate == "treats" and evidence.get("category") == _SYMPTOMATIC:
            predicate = "palliates"
        disease = self._node(_DISEASE, needed(row.get("disease"), "disease"), row)
        other = self._node(target_type, needed(row.get("target"), "target"), row)
        ends = (other, disease) if target_type == "Compound" else (disease, other)
        licence = names(row.get("licence"))
        items = evidence.get("items")
        articles = [item.get("pmid") for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        return Edge(
            source_id=ends[0].node_id,
            target_id=ends[1].node_id,
            kind=_DISEASE_EDGE_KINDS.get((predicate, target_type), predicate),
            provenance=tuple(part for name in names(row.get("provenance")) for part in name.split(", ")),
            pmids=names(articles),
            evidence=evidence,
            licence=licence[0] if licence else "",
        )


def _open_evidence(row: Mapping[str, Any]) -> dict[str, Any]:
    found = row.get("evidence")
    return found if isinstance(found, dict) else {}
