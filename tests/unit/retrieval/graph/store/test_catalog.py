"""The graph that comes with the package."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from models.encoders.hashing import HashingEncoder
from retrieval.graph.store.catalog import SHIPPED, SHIPPED_DIR, SHIPPED_FILES, open_or_build
from retrieval.graph.store.files import verify
from retrieval.graph.store.reader import LocalGraph

ENCODER = HashingEncoder(dim=32)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> LocalGraph:
    return open_or_build(tmp_path_factory.mktemp("graphs"), SHIPPED, ENCODER)


def _texts(graph: LocalGraph, name: str) -> set[str]:
    return {one.text for node in graph.find(name) for one in graph.statements(node.node_id)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Parkinson disease", "Disease Parkinson's disease is associated with Gene SNCA"),
        ("Parkinson disease", "Disease Parkinson's disease presents with Symptom tremor"),
        ("PARK2", "Disease Parkinson's disease is associated with Gene PRKN"),
        ("heart attack", "Disease myocardial infarction is a kind of Disease coronary artery disease"),
        ("AKT family", "Gene AKT1 is a member of Gene Family AKT family"),
        ("hepatitis B", "Compound Entecavir treats Disease hepatitis B"),
    ],
)
def test_the_graph_knows_what_its_sources_say(shipped: LocalGraph, name: str, text: str) -> None:
    """By everyday and old names too."""
    assert text in _texts(shipped, name)


def test_every_statement_has_its_source_licence_and_year(shipped: LocalGraph) -> None:
    """All records are read, and the graph is as its manifest says."""
    assert shipped.manifest.passed == 0 and verify(shipped.folder)[1] == ()
    with gzip.open(SHIPPED_FILES[1], "rt", encoding="utf-8") as file:
        assert sum(1 for _ in file) - 1 == shipped.manifest.edges > 30_000
    edges = [one.edge for name in ("asthma", "psoriasis", "APOE") for one in _statements(shipped, name)]
    assert len(edges) > 100
    assert all(one.provenance and one.licence in {"CC0", "CC BY 4.0"} and one.evidence["year"] for one in edges)
    assert sum(path.stat().st_size for path in SHIPPED_DIR.iterdir()) < 1_000_000


def _statements(graph: LocalGraph, name: str) -> list[Any]:
    return [one for node in graph.find(name) for one in graph.statements(node.node_id)]


def test_it_has_no_vectors_of_its_own(shipped: LocalGraph) -> None:
    """So any encoder opens it, and no statement claims a row."""
    assert open_or_build(shipped.folder.parent, SHIPPED, HashingEncoder(dim=64)).manifest == shipped.manifest
    assert {one.row for one in _statements(shipped, "asthma")} == {-1}
    with pytest.raises(IndexError, match="no vectors"):
        shipped.vectors([0])


def test_it_is_opened_without_writing_where_it_stands(shipped: LocalGraph) -> None:
    """The folder may be read-only by then."""
    root = shipped.folder.parent
    before = (shipped.folder / "manifest.json").stat().st_ino
    lock = next(root.glob(".*.lock"))
    lock.unlink()
    open_or_build(root, SHIPPED, ENCODER).close()
    assert not lock.exists()
    assert (shipped.folder / "manifest.json").stat().st_ino == before
