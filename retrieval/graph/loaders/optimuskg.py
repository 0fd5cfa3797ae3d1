"""Load OptimusKG's Parquet tables (Harvard Dataverse, doi:10.7910/DVN/IYNGEV): nodes.parquet and edges.parquet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from retrieval.errors import GRAPH_INVALID, GraphError
from retrieval.graph.context.relations import NOT
from retrieval.graph.loaders.reading import (
    FileLoader,
    MalformedRecord,
    check_nesting,
    json_object,
    names,
    needed,
    parsed,
)
from retrieval.graph.types import Edge, Node

_NODE_COLUMNS: Final = ("id", "label", "properties")
_EDGE_COLUMNS: Final = ("from", "to", "label", "relation", "properties")
_ROWS: Final = 8_192
_KINDS: Final[Mapping[str, str]] = {
    "ANA": "Anatomy", "BPO": "BiologicalProcess", "CCO": "CellularComponent", "DIS": "Disease", "DRG": "Drug",
    "EXP": "Exposure", "GEN": "Gene", "MFN": "MolecularFunction", "PHE": "Phenotype", "PWY": "Pathway",
}  # fmt: skip
# Types that PrimeKG, of the same authors, has under another name. A parent's direction is not told.
_EDGES: Final[Mapping[tuple[str, str], str]] = {
    ("ANA-ANA", "PARENT"): "anatomy_anatomy",
    ("ANA-GEN", "EXPRESSION_ABSENT"): "anatomy_protein_absent",
    ("ANA-GEN", "EXPRESSION_PRESENT"): "anatomy_protein_present",
    ("BPO-GEN", "INTERACTS_WITH"): "bioprocess_protein",
    ("CCO-GEN", "INTERACTS_WITH"): "cellcomp_protein",
    ("DIS-DIS", "PARENT"): "disease_disease",
    ("DIS-GEN", "ASSOCIATED_WITH"): "disease_protein",
    ("DIS-PHE", "PHENOTYPE_PRESENT"): "disease_phenotype_positive",
    ("DRG-DRG", "SYNERGISTIC_INTERACTION"): "drug_drug",
    ("DRG-PHE", "ADVERSE_DRUG_REACTION"): "drug_effect",
    ("EXP-BPO", "INTERACTS_WITH"): "exposure_bioprocess",
    ("EXP-CCO", "INTERACTS_WITH"): "exposure_cellcomp",
    ("EXP-DIS", "LINKED_TO"): "exposure_disease",
    ("EXP-EXP", "PARENT"): "exposure_exposure",
    ("EXP-GEN", "INTERACTS_WITH"): "exposure_protein",
    ("EXP-MFN", "INTERACTS_WITH"): "exposure_molfunc",
    ("GEN-GEN", "INTERACTS_WITH"): "protein_protein",
    ("MFN-GEN", "INTERACTS_WITH"): "molfunc_protein",
    ("PHE-GEN", "ASSOCIATED_WITH"): "phenotype_protein",
    ("PHE-PHE", "PARENT"): "phenotype_phenotype",
    ("PWY-GEN", "INTERACTS_WITH"): "pathway_protein",
    ("PWY-PWY", "PARENT"): "pathway_pathway",
}
_RELATIONS: Final[Mapping[str, str]] = {
    "CONTRAINDICATION": "contraindication",
    "INDICATION": "indication",
    "IS_A": "subclass_of",
    "OFF_LABEL_USE": "off-label use",
    "PARENT": "is_a_parent_or_child_of",
}
_ACTIONS: Final = ("carrier", "enzyme", "target", "transporter")
_SYNONYMS: Final = ("name", "exact_synonyms", "synonyms", "trade_names", "symbol_synonyms", "obsolete_symbols")
_REFERENCES: Final = ("references", "reference_ids")
_PMID: Final = re.compile(r"(?:PMID:\s*)(\d+)$", re.IGNORECASE)


class OptimuskgLoader(FileLoader):
    """Load the tables of nodes and edges, told by their columns; what is in a file of one type only is not read."""

    def nodes(self) -> Iterator[Node]:
        yield from parsed(self._rows(_NODE_COLUMNS), _node, self._place, self._report)

    def edges(self) -> Iterator[Edge]:
        yield from parsed(self._rows(_EDGE_COLUMNS), _edge, self._place, self._report)

    def _rows(self, columns: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
        try:
            from pyarrow import ArrowException
            from pyarrow.parquet import ParquetFile
        except ImportError as fault:
            raise GraphError(
                "Parquet needs pyarrow: pip install 'arrowhead[parquet]'", GRAPH_INVALID, param="kind"
            ) from fault
        for path in self._files:
            self._place.file, self._place.line = path.name, 0
            try:
                with ParquetFile(path) as table:
                    found = set(table.schema_arrow.names)
                    if not (found.issuperset(_NODE_COLUMNS) or found.issuperset(_EDGE_COLUMNS)):
                        raise GraphError(
                            f"{path}: neither the columns of nodes nor of edges", GRAPH_INVALID, param="files"
                        )
                    if not found.issuperset(columns) or ("from" in found) != ("from" in columns):
                        continue
                    for batch in table.iter_batches(_ROWS, columns=list(columns)):
                        for row in batch.to_pylist():
                            self._place.line += 1
                            yield row
            except (ArrowException, OSError) as fault:
                raise GraphError(
                    f"{path}: no Parquet file, or a damaged one: {fault}", GRAPH_INVALID, param="files"
                ) from fault


def _properties(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties, which are JSON text; in tables of one type they are columns of their own."""
    found = row["properties"]
    found = json_object(found) if isinstance(found, str) else found
    if not isinstance(found, dict):
        raise MalformedRecord("properties is no JSON object")
    return {key: value for key, value in found.items() if value not in (None, [], {}, "")}


def _sources(properties: Mapping[str, Any]) -> tuple[str, ...]:
    found = properties.get("sources")
    return names([found.get("direct"), found.get("indirect")]) if isinstance(found, dict) else ()


def _node(row: Mapping[str, Any]) -> Node:
    properties = _properties(row)
    identifier, label = needed(row["id"], "id"), needed(row["label"], "label")
    kind = _KINDS.get(label, label)
    name = needed(properties.get("symbol") or properties.get("name"), "name")
    values = [properties.get(key) for key in _SYNONYMS]
    parts = [part for value in values for part in (value if isinstance(value, list) else [value])]
    synonyms = names([part.get("label") if isinstance(part, dict) else part for part in parts])
    return Node(
        node_id=f"{kind}::{identifier}",
        kind=kind,
        name=name,
        identifier=identifier,
        synonyms=tuple(one for one in synonyms if one != name),
        source=next(iter(_sources(properties)), ""),
    )


def _edge(row: Mapping[str, Any]) -> Edge:
    properties = _properties(row)
    label, relation = needed(row["label"], "label"), needed(row["relation"], "relation")
    kinds = [_KINDS.get(part, part) for part in label.split("-")]
    if len(kinds) != 2:
        raise MalformedRecord(f"label {label!r} is no pair of types")
    kind = _edge_kind(label, relation)
    if properties.pop("qualifier_not", False):
        kind = NOT + kind
    articles = [_PMID.match(one) for key in _REFERENCES for one in names(properties.get(key))]
    evidence = {key: value for key, value in properties.items() if key != "sources"}
    if "year_final" in evidence:
        evidence["year"] = evidence["year_final"]
    return Edge(
        source_id=f"{kinds[0]}::{needed(row['from'], 'from')}",
        target_id=f"{kinds[1]}::{needed(row['to'], 'to')}",
        kind=kind,
        provenance=_sources(properties) or ("OptimusKG",),
        pmids=tuple(dict.fromkeys(found[1] for found in articles if found)),
        evidence=check_nesting(evidence),
    )


def _edge_kind(label: str, relation: str) -> str:
    if label == "DRG-GEN":
        action = relation.lower()
        return f"drug_protein:{action}" if action in _ACTIONS else f"acts_as_{action}_of"
    return _EDGES.get((label, relation)) or _RELATIONS.get(relation) or relation.lower()
