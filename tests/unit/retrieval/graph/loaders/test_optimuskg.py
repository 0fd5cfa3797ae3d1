"""OptimusKG's Parquet tables: nodes and edges by their columns, properties as JSON or as columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from models.encoders.hashing import HashingEncoder
from retrieval.errors import GRAPH_INVALID, GraphError
from retrieval.graph.loaders.optimuskg import OptimuskgLoader
from retrieval.graph.loaders.reading import Report
from retrieval.graph.store.catalog import ImportRequest, build_graph, open_graph

parquet = pytest.importorskip("pyarrow.parquet")
pyarrow = pytest.importorskip("pyarrow")

NODES = [
    ("ENSG00000145335", "GEN", {"symbol": "SNCA", "name": "synuclein alpha", "obsolete_symbols": [{"label": "PARK1"}]}),
    ("MONDO_0005180", "DIS", {"name": "Parkinson disease", "exact_synonyms": ["PD"], "related_synonyms": ["shaking"]}),
    ("CHEMBL1009", "DRG", {"name": "Levodopa", "trade_names": ["Larodopa"], "sources": {"direct": ["drugcentral"]}}),
    ("HP_0001337", "PHE", {"name": "Tremor", "synonyms": None}),
]
EDGES: list[tuple[str, str, str, str, dict[str, Any]]] = [
    (
        "MONDO_0005180", "ENSG00000145335", "DIS-GEN", "ASSOCIATED_WITH",
        {"evidence_score": 0.9, "year_final": "2023", "sources": {"direct": ["opentargets"], "indirect": ["disgenet"]}},
    ),
    ("CHEMBL1009", "MONDO_0005180", "DRG-DIS", "INDICATION", {"reference_ids": ["PMID:1", "DailyMed:2"]}),
    ("CHEMBL1009", "ENSG00000145335", "DRG-GEN", "INHIBITOR", {"mechanisms_of_action": []}),
    ("MONDO_0005180", "HP_0001337", "DIS-PHE", "PHENOTYPE_PRESENT", {"qualifier_not": True}),
]  # fmt: skip


def write(path: Path, columns: tuple[str, ...], rows: list[Any], *, as_text: bool = True) -> Path:
    cells = [[*row[:-1], json.dumps(row[-1]) if as_text else row[-1]] for row in rows]
    parquet.write_table(pyarrow.table({name: [row[at] for row in cells] for at, name in enumerate(columns)}), path)
    return path


def files(folder: Path, nodes: list[Any] = NODES, edges: list[Any] = EDGES) -> list[Path]:
    return [
        write(folder / "nodes.parquet", ("id", "label", "properties"), nodes),
        write(folder / "edges.parquet", ("from", "to", "label", "relation", "properties"), edges),
    ]


def test_the_tables_become_a_graph(tmp_path: Path) -> None:
    """With names that mean the same, the sources, articles and year of each edge, and a negation as such."""
    order = ImportRequest(kind="optimuskg", files=tuple(files(tmp_path)), name="optimuskg")
    built = build_graph(tmp_path / "graphs", order, HashingEncoder(dim=32))
    assert (built.manifest.nodes, built.manifest.edges, built.manifest.passed) == (4, 4, 0)
    graph = open_graph(tmp_path / "graphs", "optimuskg")
    [disease] = graph.find("Parkinson disease")
    assert disease.synonyms == ("PD",)
    assert graph.find("PARK1")[0].name == "SNCA" and graph.find("Larodopa")[0].source == "drugcentral"
    found = {one.text: one.edge for one in graph.statements(disease.node_id)}
    gene = found["Disease Parkinson disease is associated with Gene SNCA"]
    assert gene.provenance == ("opentargets", "disgenet")
    assert gene.evidence == {"evidence_score": 0.9, "year_final": "2023", "year": "2023"}
    assert found["Drug Levodopa is indicated for Disease Parkinson disease"].pmids == ("1",)
    assert any("does not stand in the relation" in text and "Tremor" in text for text in found)
    texts = [one.text for one in graph.statements("Gene::ENSG00000145335")]
    assert "Drug Levodopa acts as inhibitor of Gene SNCA" in texts


def test_tables_of_one_type_have_columns_in_place_of_json(tmp_path: Path) -> None:
    """They are read as well."""
    path = write(tmp_path / "gene.parquet", ("id", "label", "properties"), NODES[:1], as_text=False)
    assert [node.name for node in OptimuskgLoader([path], Report()).nodes()] == ["SNCA"]


def test_a_bad_row_is_named_and_passed_over(tmp_path: Path) -> None:
    """By its file and number."""
    report = Report()
    loader = OptimuskgLoader(files(tmp_path, [NODES[0], ("X", "DIS", {}), NODES[1]]), report)
    assert [node.name for node in loader.nodes()] == ["SNCA", "Parkinson disease"]
    assert report.first == [("nodes.parquet:2", "name is missing or no text")]


def test_other_files_are_refused(tmp_path: Path) -> None:
    """Other columns, and what is no Parquet."""
    other = write(tmp_path / "x.parquet", ("a", "b"), [("1", {})])
    with pytest.raises(GraphError, match="neither the columns", check=GRAPH_INVALID.is_of):
        list(OptimuskgLoader([other], Report()).nodes())
    (tmp_path / "y.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(GraphError, match=r"y\.parquet: no Parquet file", check=GRAPH_INVALID.is_of):
        list(OptimuskgLoader([tmp_path / "y.parquet"], Report()).edges())
