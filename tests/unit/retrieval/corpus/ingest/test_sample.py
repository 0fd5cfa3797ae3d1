"""The namespace of notes that comes with the package."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from models.encoders.hashing import HashingEncoder
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.ingest.sample import LICENCE, NOTES, NOTES_FILE, notes_namespaces, read_notes
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import Backends, NamespaceSettings
from server.settings.retrieval import RetrievalSettings
from server.wiring.retrieval import build_retrieval

NUMBER = 98


@pytest.fixture
def backends(tmp_path: Path) -> Iterator[Backends]:
    yield build_retrieval(RetrievalSettings(encoders=("hashing",)), tmp_path / "unused").namespaces.backends


def test_notes_are_short_passages_with_a_title_each() -> None:
    """Each under its own id, labelled as what they are."""
    notes = list(read_notes(NOTES_FILE.read_text(encoding="utf-8")))
    assert len(notes) == NUMBER == len({note.document.document_id for note in notes})
    assert all(note.document.title and 80 < len(note.text) < 700 for note in notes)
    assert {note.document.licence for note in notes} == {LICENCE} and "no medical advice" in LICENCE


def test_they_are_made_once(tmp_path: Path, backends: Backends) -> None:
    """With all indices; the second time nothing is written."""
    made = notes_namespaces(tmp_path, backends, "hashing")
    described = made.describe(NOTES)
    assert described.counts is not None and described.counts.passages == NUMBER
    assert not any(described.counts.pending.values())
    made.close()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.sqlite")}
    notes_namespaces(tmp_path, backends, "hashing").close()
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.sqlite")}


def test_one_that_was_killed_on_the_way_is_made_whole(tmp_path: Path, backends: Backends) -> None:
    """It has some notes and no mark of being done."""
    made = notes_namespaces(tmp_path, backends, "hashing")
    root = made.root
    made.delete(NOTES)
    made.close()
    half = Namespaces(root, backends)
    half.create(NOTES, NamespaceSettings(encoder="hashing"))
    add_items(half, NOTES, list(read_notes(NOTES_FILE.read_text(encoding="utf-8")))[:10])
    half.close()
    whole = notes_namespaces(tmp_path, backends, "hashing")
    described = whole.describe(NOTES)
    assert whole.root == root and described.counts is not None and described.counts.passages == NUMBER
    whole.close()


def test_two_that_make_them_at_once_do_not_meet(tmp_path: Path, backends: Backends) -> None:
    """One makes them, the other waits."""
    with ThreadPoolExecutor(2) as threads:
        both = list(threads.map(lambda _: notes_namespaces(tmp_path, backends, "hashing"), range(2)))
    for made in both:
        described = made.describe(NOTES)
        assert described.counts is not None and described.counts.passages == NUMBER
        made.close()


def test_without_an_encoder_there_are_words(tmp_path: Path, backends: Backends) -> None:
    """And another folder than with one."""
    words = notes_namespaces(tmp_path, backends, "")
    vectors = notes_namespaces(tmp_path, backends, HashingEncoder().name)
    with words.using(NOTES) as namespace:
        assert "vectors" not in namespace.settings.targets
    assert words.root != vectors.root
    words.close()
    vectors.close()
