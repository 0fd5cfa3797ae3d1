"""Load edges of diseases from JSON lines.

Fields: disease, doid, predicate, target_type, target, provenance, evidence, licence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from retrieval.graph.loaders.reading import (
    MalformedRecord,
    RecordPosition,
    Report,
    check_nesting,
    json_object,
    lines,
    names,
    needed,
    rows,
)
from retrieval.graph.types import Edge, Node

_DISEASE: Final = "Disease"
_KINDS: Final[Mapping[tuple[str, str], str]] = {
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


class OpenEdgesLoader:
    """Load edges of diseases; a target has no identifier in these files and is identified by its gene symbol or name.

    Memory grows with the number of diseases (their identifiers by name), not of edges.
    """

    def __init__(self, files: Sequence[Path], report: Report) -> None:
        self._files = files
        self._report = report
        self._place = RecordPosition()
        self._doids: dict[str, str] = {}

    @property
    def place(self) -> str:
        return str(self._place)

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
        for row in self._rows(self._report):
            try:
                yield self._edge(row)
            except MalformedRecord as fault:
                self._report.add(self.place, fault)

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
        elif kind == "Compound" and (drugbank := names(_evidence(row).get("drugbank_id"))):
            identifier, source = drugbank[0], "DrugBank"
        return Node(node_id=f"{kind}::{identifier}", kind=kind, name=name, identifier=identifier, source=source)

    def _edge(self, row: Mapping[str, Any]) -> Edge:
        evidence = check_nesting(_evidence(row))
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
            kind=_KINDS.get((predicate, target_type), predicate),
            provenance=tuple(part for name in names(row.get("provenance")) for part in name.split(", ")),
            pmids=names(articles),
            evidence=evidence,
            licence=licence[0] if licence else "",
        )


def _evidence(row: Mapping[str, Any]) -> dict[str, Any]:
    found = row.get("evidence")
    return found if isinstance(found, dict) else {}
