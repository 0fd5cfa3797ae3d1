"""Names of a local graph's nodes, as a vocabulary."""

from __future__ import annotations

from pathlib import Path

from graph_files import build_small_graph

from retrieval.graph.store.reader import GraphNames
from retrieval.types import NAME_KINDS, KnownName


def test_diseases_symptoms_and_genes_are_names_and_compounds_are_none(tmp_path: Path) -> None:
    """In their stored spelling and by their synonyms; a gene's symbol counts as an alias, as its species is unknown."""
    graph = build_small_graph(tmp_path)
    names = GraphNames(graph)

    def find(name: str) -> set[KnownName]:
        return set(names.find(name, NAME_KINDS))

    assert find("PARKINSON'S DISEASE") == {KnownName("Parkinson's disease", "disease")}
    assert KnownName("Parkinson disease", "disease") in find("parkinson disease")
    assert find("Tremor") == {KnownName("tremor", "heading")}
    assert find("snca") == {KnownName("SNCA", "alias")}
    assert find("Cyclosporine") == find("parkinson") == find("Parkinson's  disease") == find("") == set()
    assert set(names.find("tremor", {"disease"})) == set()
    graph.close()
