"""The reading of edges of the context evaluation."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from scripts.evals.graph_files import EdgeFile
from scripts.evals.kg.survival import asked_of, stripped


def edge(disease: str, predicate: str, kind: str, target: str) -> dict[str, object]:
    return {
        "disease": disease,
        "doid": f"DOID:{disease}",
        "predicate": predicate,
        "target_type": kind,
        "target": target,
        "provenance": "DISEASES, GWAS",
        "evidence": {"items": [{"pmid": "1"}, {"pmid": "1"}, {"snp": "rs1"}]},
    }


def question(key: str, options: str) -> dict[str, str]:
    text = f"Which Gene is associated with Psoriasis and zoster. Given list is: {options}"
    return {
        "disease_1": "psoriasis",
        "disease_2": "zoster",
        "correct_node": key,
        "options_combined": options,
        "text": text,
    }


def test_edges_are_read_with_direction_sources_and_articles(tmp_path: Path) -> None:
    """What treats is the source of its edge."""
    path = tmp_path / "edges.jsonl.gz"
    rows = [edge("psoriasis", "associates", "Gene", "HLA-B"), edge("psoriasis", "treats", "Compound", "Methotrexate")]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    around = EdgeFile(path).neighbourhood("Psoriasis")
    assert around is not None
    assert [s.text for s in around.statements] == [
        "Disease psoriasis associates Gene HLA-B",
        "Compound Methotrexate treats Disease psoriasis",
    ]
    assert around.statements[0].edge.provenance == ("DISEASES", "GWAS") and around.statements[0].edge.pmids == ("1",)


def test_a_question_counts_where_both_edges_are_there(tmp_path: Path) -> None:
    """Known diseases alone do not make it answerable."""
    path = tmp_path / "edges.jsonl"
    rows = [
        edge("psoriasis", "associates", "Gene", "HLA-B"),
        edge("zoster", "associates", "Gene", "HLA-B"),
        edge("zoster", "associates", "Gene", "TERT"),
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    edges = EdgeFile(path)
    found = [asked_of(question(key, "TERT, HLA-B"), edges) for key in ("HLA-B", "TERT")]
    assert [one is not None and one.answerable for one in found] == [True, False]
    assert found[0] is not None and len(found[0].gathered.mentions) == 2
    assert asked_of({**question("x", "y"), "disease_1": "?", "disease_2": "?"}, edges) is None


def test_edges_without_provenance_are_read(tmp_path: Path) -> None:
    """Some of SPOKE's kept edges have null for sources and attributes."""
    path = tmp_path / "edges.jsonl"
    path.write_text(json.dumps({**edge("zoster", "associates", "Gene", "TERT"), "provenance": None, "evidence": None}))
    around = EdgeFile(path).neighbourhood("zoster")
    assert around is not None and around.statements[0].edge.provenance == ()


def test_a_stripped_question_has_no_list() -> None:
    """What is left ends with the question."""
    assert stripped({"text": "Which Gene? Given list is: A, B"})["text"] == "Which Gene?"
