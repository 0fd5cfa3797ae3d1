"""The tables of the graph that ships, made from small files in the forms of their sources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.encoders.hashing import HashingEncoder
from retrieval.graph.store.catalog import ImportRequest, build_graph, open_graph
from retrieval.graph.store.reader import LocalGraph
from scripts.make_open_graph import main

HGNC = (
    "HGNC ID\tApproved symbol\tApproved name\tStatus\tAlias symbols\tNCBI Gene ID(supplied by NCBI)\tPrevious symbols",
    "HGNC:8607\tPRKN\tparkin RBR E3 ubiquitin protein ligase\tApproved\tPDJ, REST\t5071\tPARK2",
    "HGNC:11138\tSNCA\tsynuclein alpha\tApproved\tNACP\t6622\tPARK1",
    "HGNC:391\tAKT1\tAKT serine/threonine kinase 1\tApproved\tPKB\t207\t",
)
DOID = [
    {
        "id": "DOID:14330",
        "name": "Parkinson's disease",
        "relations": {"is_a": ["DOID:331"]},
        "xrefs": [{"id": "D010300"}],
        "synonyms": ["paralysis agitans", "tremor", "shared"],
    },
    {"id": "DOID:331", "name": "central nervous system disease", "synonyms": ["shared"]},
]
MESH = (
    "D014202\tTremor\t\tC10",
    "D010300\tParkinson Disease\tParalysis Agitans\tC10",
    "D007980\tLevodopa\tL-Dopa|Dopa, L\tD02",
)
EDGES = [
    (
        "associates",
        "Gene",
        "PARK2",
        "DISEASES",
        {"items": [{"channel": "knowledge", "source": "GHR", "confidence": 5.0}]},
        "CC BY 4.0 (Jensen DISEASES / GWAS Catalog)",
    ),
    ("associates", "Gene", "ENSP0000", "DISEASES", {"items": []}, "CC BY 4.0 (Jensen DISEASES / GWAS Catalog)"),
    (
        "treats",
        "Compound",
        "Levodopa",
        "PharmacotherapyDB",
        {"category": "SYM", "drugbank_id": "DB01235"},
        "CC0 (names)",
    ),
]


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> LocalGraph:
    folder = tmp_path_factory.mktemp("made")
    resources = folder / "resources"
    _write(resources / "hgnc_entries.tsv", "\n".join(HGNC) + "\n")
    _write(resources / "doid.json", json.dumps(DOID))
    for name in ("mondo.json", "hp.json"):
        _write(resources / name, "[]")
    _write(resources / "mesh_id_label_mappings.tsv", "\n".join(MESH) + "\n")
    _write(resources / "mesh_supp_id_label_mappings.tsv", "")
    _write(resources / "famplex" / "relations.csv", "HGNC,AKT1,isa,FPLX,AKT\nHGNC,NONE,isa,FPLX,AKT\n")
    keys = ("predicate", "target_type", "target", "provenance", "evidence", "licence")
    rows = (
        {"disease": "Parkinson's disease", "doid": "DOID:14330", **dict(zip(keys, row, strict=True))} for row in EDGES
    )
    edges = _write(folder / "edges.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    own = "Disease::DOID:14330\tPRESENTS_DpS\tSymptom::D014202\tArrowhead sample\tCC0\n"
    own_nodes = "kind\tidentifier\tname\nSymptom\tD014202\ttremor\nDisease\tDOID:14330\tParkinson's disease\n"
    _write(folder / "tables" / "nodes.tsv", own_nodes)
    _write(folder / "tables" / "edges.tsv", f"source\tkind\ttarget\tprovenance\tlicence\n{own}")
    arguments = ["--edges", edges, "--resources", resources, "--tables", folder / "tables", "--out", folder]
    assert main([str(one) for one in arguments]) == 0
    files = (folder / "nodes.tsv.gz", folder / "edges.tsv.gz")
    order = ImportRequest(kind="tsv", files=files, name="made")
    assert build_graph(folder / "graphs", order, HashingEncoder(dim=32)).manifest.passed == 0
    return open_graph(folder / "graphs", "made")


def test_each_source_gives_its_statements(made: LocalGraph) -> None:
    """Under current symbols; with source, licence and year; a gene that HGNC lacks is left out."""
    [disease] = made.find("Parkinson's disease")
    found = {one.text: one.edge for one in made.statements(disease.node_id)}
    assert set(found) == {
        "Disease Parkinson's disease is associated with Gene PRKN",
        "Compound Levodopa relieves symptoms of Disease Parkinson's disease",
        "Disease Parkinson's disease presents with Symptom tremor",
        "Disease Parkinson's disease is a kind of Disease central nervous system disease",
    }
    gene = found["Disease Parkinson's disease is associated with Gene PRKN"]
    assert gene.evidence == {"curated_by": ["GHR"], "confidence": 5.0, "year": 2015} and gene.licence == "CC BY 4.0"
    assert all(edge.evidence["year"] and edge.provenance and edge.licence for edge in found.values())
    assert [one.text for one in made.statements("Gene::207")] == ["Gene AKT1 is a member of Gene Family AKT family"]


def test_names_that_mean_something_else_are_left_out(made: LocalGraph) -> None:
    """Another term's name, one of two terms, an English word; old and other symbols and entry terms are there."""
    [disease] = made.find("paralysis agitans")
    assert disease.synonyms == ("paralysis agitans",)
    assert made.find("PARK2")[0].synonyms == ("PARK2", "PDJ")
    assert made.find("L-Dopa")[0].name == "Levodopa"
    assert not made.find("REST") and not made.find("shared")
