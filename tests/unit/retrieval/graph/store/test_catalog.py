"""The graph that comes with the package."""

from __future__ import annotations

import json
from pathlib import Path

from models.encoders.hashing import HashingEncoder
from retrieval.graph.store.catalog import SAMPLE, SAMPLE_DIR, open_or_sample

ENCODER = HashingEncoder(dim=32)


def test_the_sample_is_built_at_its_first_use(tmp_path: Path) -> None:
    """Every edge has a source and a licence, and the usual names of its diseases are known."""
    graph = open_or_sample(tmp_path, SAMPLE, ENCODER)
    assert graph.manifest.passed == 0
    [disease] = graph.find("Parkinson disease")
    texts = {statement.text for statement in graph.statements(disease.node_id)}
    assert "Disease Parkinson's disease is associated with Gene SNCA" in texts
    assert "Disease Parkinson's disease presents with Symptom tremor" in texts
    for name in {found.node_id for found in graph.names()}:
        statements = graph.statements(name)
        assert statements, name
        assert all(s.edge.provenance and s.edge.licence in {"CC0", "CC BY 3.0", "CC BY 4.0"} for s in statements)
    assert sum(path.stat().st_size for path in SAMPLE_DIR.iterdir()) < 100_000
    assert json.loads((graph.folder / "manifest.json").read_text(encoding="utf-8"))["graph"] == SAMPLE


def test_the_sample_is_opened_without_writing_where_it_stands(tmp_path: Path) -> None:
    """The folder may be read-only by then; another encoder makes it anew."""
    open_or_sample(tmp_path, SAMPLE, ENCODER).close()
    before = (tmp_path / SAMPLE / "manifest.json").stat().st_ino
    lock = next(tmp_path.glob(".*.lock"))
    lock.unlink()
    open_or_sample(tmp_path, SAMPLE, ENCODER).close()
    assert not lock.exists()
    assert (tmp_path / SAMPLE / "manifest.json").stat().st_ino == before
    other = HashingEncoder(dim=64)
    assert open_or_sample(tmp_path, SAMPLE, other).vectors([0]).shape == (1, 64)
