"""Load graphs from tables: PrimeKG's kg.csv, and this project's own, for graphs without a loader."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from typing import Final

from retrieval.errors import GRAPH_INVALID, GraphError
from retrieval.graph.loaders.reading import (
    FileLoader,
    MalformedRecord,
    Report,
    Row,
    check_nesting,
    json_object,
    lines,
    many,
    needed,
    parsed,
    rows,
    table,
)
from retrieval.graph.types import Edge, Node

_NODE_COLUMNS: Final = frozenset({"kind", "identifier", "name"})
_EDGE_COLUMNS: Final = frozenset({"source", "kind", "target"})
_PRIMEKG_COLUMNS: Final = (
    "relation", "display_relation", "x_index", "x_id", "x_type", "x_name", "x_source", "y_index", "y_id", "y_type",
    "y_name", "y_source",
)  # fmt: skip
# The source's kind of an edge between two kinds; the file has the edge in both directions.
_PRIMEKG_FIRST: Final[Mapping[str, str]] = {
    "anatomy_protein_absent": "anatomy",
    "anatomy_protein_present": "anatomy",
    "bioprocess_protein": "biological_process",
    "cellcomp_protein": "cellular_component",
    "contraindication": "drug",
    "disease_phenotype_negative": "disease",
    "disease_phenotype_positive": "disease",
    "disease_protein": "disease",
    "drug_effect": "drug",
    "drug_protein": "drug",
    "exposure_bioprocess": "exposure",
    "exposure_cellcomp": "exposure",
    "exposure_disease": "exposure",
    "exposure_molfunc": "exposure",
    "exposure_protein": "exposure",
    "indication": "drug",
    "molfunc_protein": "molecular_function",
    "off-label use": "drug",
    "pathway_protein": "pathway",
    "phenotype_protein": "effect/phenotype",
}


class PlainLoader(FileLoader):
    """Load this project's tables, recognized by their headers whatever their names; docs/graph.md describes them.

    Nodes: kind, identifier, name; optionally synonyms, source. Edges: source, kind, target; optionally provenance,
    pmids, evidence, licence. Several values of a cell are separated by "|".
    """

    def nodes(self) -> Iterator[Node]:
        yield from parsed(self._rows(_NODE_COLUMNS), _plain_node, self._place, self._report)

    def edges(self) -> Iterator[Edge]:
        yield from parsed(self._rows(_EDGE_COLUMNS), _plain_edge, self._place, self._report)

    def _rows(self, columns: frozenset[str]) -> Iterator[Row]:
        for path in self._files:
            self._place.file, self._place.line = path.name, 0
            rows = table(lines(path), self._place, self._report)
            header = next(rows)
            if not (header.keys() >= _NODE_COLUMNS or header.keys() >= _EDGE_COLUMNS):
                raise GraphError(
                    f"{path}: line {self._place.line}: neither the columns of nodes nor of edges", GRAPH_INVALID
                )
            if header.keys() >= columns:
                yield from rows


def _plain_node(row: Row) -> Node:
    kind, identifier = needed(row["kind"], "kind"), needed(row["identifier"], "identifier")
    return Node(
        node_id=f"{kind}::{identifier}",
        kind=kind,
        name=needed(row["name"], "name"),
        identifier=identifier,
        synonyms=many(row.get("synonyms", "")),
        source=row.get("source", ""),
    )


def _plain_edge(row: Row) -> Edge:
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


class PrimekgLoader(FileLoader):
    """Load PrimeKG's kg.csv (Harvard Dataverse, doi:10.7910/DVN/IXA7BM).

    The two rows of an edge yield equal edges, which deduplication reduces to one. ``edges`` reports malformed rows.
    """

    def nodes(self) -> Iterator[Node]:
        for row in self._rows(Report()):
            try:
                yield _primekg_node(row, "x")
                yield _primekg_node(row, "y")
            except MalformedRecord:
                continue

    def edges(self) -> Iterator[Edge]:
        yield from parsed(self._rows(self._report), _primekg_edge, self._place, self._report)

    def _rows(self, report: Report) -> Iterator[dict[str, str]]:
        for path in self._files:
            self._place.file = path.name
            texts = rows(lines(path), self._place, report)
            header = next(csv.reader([next(texts, "")]), [])
            if missing := [name for name in _PRIMEKG_COLUMNS if name not in header]:
                raise GraphError(f"{path}: line 1: this is no PrimeKG kg.csv: no column {missing[0]}", GRAPH_INVALID)
            for text in texts:
                try:
                    cells = next(csv.reader([text], strict=True))
                except csv.Error as fault:
                    report.add(self.place, f"no CSV: {fault}")
                    continue
                if len(cells) != len(header):
                    report.add(self.place, f"{len(cells)} columns, {len(header)} expected")
                    continue
                yield dict(zip(header, cells, strict=True))


def _primekg_node(row: Mapping[str, str], end: str) -> Node:
    kind, source = needed(row[f"{end}_type"], f"{end}_type"), needed(row[f"{end}_source"], f"{end}_source")
    identifier = f"{source}:{needed(row[f'{end}_id'], f'{end}_id')}"
    name = needed(row[f"{end}_name"], f"{end}_name")
    return Node(node_id=f"{kind}::{identifier}", kind=kind, name=name, identifier=identifier, source=source)


def _primekg_edge(row: Mapping[str, str]) -> Edge:
    x, y = _primekg_node(row, "x"), _primekg_node(row, "y")
    relation = needed(row["relation"], "relation")
    if x.kind != y.kind and relation in _PRIMEKG_FIRST:
        turned = x.kind != _PRIMEKG_FIRST[relation]
    else:
        turned = (x.kind, x.node_id) > (y.kind, y.node_id)
    display = row["display_relation"].strip()
    return Edge(
        source_id=(y if turned else x).node_id,
        target_id=(x if turned else y).node_id,
        # Four values are more specific than their relation: target, enzyme, carrier, transporter.
        kind=f"{relation}:{display}" if relation == "drug_protein" and display else relation,
        provenance=("PrimeKG",),
        evidence={"display_relation": display} if display else {},
    )
