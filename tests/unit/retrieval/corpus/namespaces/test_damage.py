"""Damaged indices: told before a library reads them, and derived anew where they can be."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from corpus_doubles import TokenWordEncoder
from corpus_files import pdf, reading

from models.errors import ArrowheadError
from retrieval.corpus.ingest.add import add_file, add_items
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.namespaces.verify import verify
from retrieval.corpus.search.searcher import Searcher, SearchOptions
from retrieval.errors import IndexDamaged
from server.settings.retrieval import RetrievalSettings
from server.wiring.namespaces import build_namespaces


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A namespace with every kind of file that there is."""
    folder = tmp_path_factory.mktemp("whole")
    namespaces = opened(folder / "namespaces")
    namespaces.create("ns", NamespaceSettings(encoder="words"), created="2026-11-28")
    add_items(namespaces, "ns", [reading(f"PMID:{number}", f"asthma of mice {number}") for number in range(1, 30)])
    (folder / "paper.pdf").write_bytes(pdf("Words of a page"))
    add_file(namespaces, "ns", folder / "paper.pdf")
    namespaces.close()
    return folder / "namespaces"


@pytest.fixture
def made(tmp_path: Path, whole: Path) -> Namespaces:
    """A copy of it, as the server opens it."""
    shutil.copytree(whole, tmp_path / "namespaces", symlinks=True)
    return opened(tmp_path / "namespaces")


def opened(root: Path) -> Namespaces:
    encoder = TokenWordEncoder()
    return build_namespaces(RetrievalSettings(backend="faiss"), root, lambda _: encoder)


def harm(path: Path) -> None:
    """Change the byte in the middle of a file, in place: whoever has it mapped would not bear a shorter one."""
    with path.open("r+b") as file:
        middle = path.stat().st_size // 2
        file.seek(middle)
        (byte,) = file.read(1)
        file.seek(middle)
        file.write(bytes([byte ^ 0xFF]))


def one_of(folder: Path, pattern: str) -> Path:
    return sorted(folder.glob(pattern))[0]


@pytest.mark.parametrize("suffix", ["term", "idx", "fast", "fieldnorm", "store", "pos"])
def test_changed_words_are_derived_anew_by_the_search_that_meets_them(
    made: Namespaces, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No byte of them reaches tantivy, which can end the process; the search has its hits, the log the reason."""
    harm(one_of(made.root / "ns" / "words", f"*.{suffix}"))
    with contextlib.closing(made), caplog.at_level(logging.WARNING):
        assert len(Searcher(made).search("asthma mice", ["ns"], SearchOptions(retriever="bm25", k=50))) == 29
        assert verify(made, "ns").faults == ()
    assert "damage was found in its index of words, which is built again: passages=30" in caplog.text


@pytest.mark.parametrize("found", ["meta.json", "manifest.json"])
def test_a_changed_list_of_segments_is_damage_too(made: Namespaces, found: str) -> None:
    """It has no checksum of its own: another number of passages would be believed."""
    path = made.root / "ns" / "words" / found
    if found == "meta.json":
        meta = json.loads(path.read_text())
        meta["segments"][0]["max_doc"] += 1
        path.write_text(json.dumps(meta, indent=2))
    else:
        path.write_text("{")
    with contextlib.closing(made):
        with pytest.raises(IndexDamaged), made.using("ns") as namespace:
            assert namespace.words
        with made.using("ns") as namespace:
            assert len(namespace.words.search("asthma", 50)) == 29


@pytest.mark.parametrize("place", ["words", "vectors"])
def test_what_stands_in_the_place_of_an_index_is_told_and_removed(made: Namespaces, tmp_path: Path, place: str) -> None:
    """Its manifest is a folder, then it is a link to a disk that is not there."""
    folder = made.root / "ns" / place
    manifest = folder / "manifest.json"
    manifest.unlink()
    manifest.mkdir()
    with contextlib.closing(made), made.using("ns") as namespace:
        with pytest.raises(IndexDamaged, match="manifest"):
            namespace.rows(place)
        shutil.rmtree(folder)
        folder.symlink_to(tmp_path / "none")
        made.backends.storage.remove(folder)
    assert not folder.is_symlink()


def test_words_that_are_gone_are_derived_anew(made: Namespaces) -> None:
    """As those that are changed."""
    made.backends.storage.remove(made.root / "ns" / "words")
    with contextlib.closing(made):
        assert len(Searcher(made).search("asthma mice", ["ns"], SearchOptions(retriever="bm25", k=50))) == 29


def test_a_change_derives_damaged_words_anew(made: Namespaces) -> None:
    """The change is not refused, and what was there before can be found beside what it adds."""
    harm(one_of(made.root / "ns" / "words", "*.term"))
    with contextlib.closing(made):
        add_items(made, "ns", [reading("PMID:90", "asthma of rats")])
        report = verify(made, "ns")
    assert report.faults == ()
    assert set(report.rows.values()) == {31}


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("words/*.term", "words: "),
        ("words/*.store", "words: "),
        ("words/*.pos", "words: "),
        ("vectors/segments/*/vectors.npy", "vectors: "),
        ("vectors/manifest.json", "vectors: "),
        ("originals/*.pdf", "originals: "),
    ],
)
def test_verify_names_damage_of_every_kind_of_file(made: Namespaces, pattern: str, named: str) -> None:
    """Also of one that was opened before, and goes on with the other files."""
    with contextlib.closing(made), made.using("ns") as namespace:
        assert all(namespace.rows(target) for target in namespace.settings.targets)
        path = one_of(made.root / "ns", pattern)
        harm(path)
        report = verify(made, "ns")
    assert [fault for fault in report.faults if fault.startswith(named) and path.name in fault], report.faults
    assert len(report.faults) == 1


def test_a_flipped_bit_of_a_store_is_an_error_of_ours_or_none(made: Namespaces) -> None:
    """Wherever it is; and whatever reads the documents comes to an end."""
    made.close()
    path, chance = made.root / "ns" / "passages.sqlite", random.Random(4)
    whole = path.read_bytes()
    for _ in range(150):
        changed = bytearray(whole)
        changed[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        with contextlib.closing(opened(made.root)) as namespaces, contextlib.suppress(ArrowheadError):
            namespaces.describe("ns")
            Searcher(namespaces).search("asthma mice", ["ns"], SearchOptions(k=50))
            verify(namespaces, "ns")


@pytest.mark.parametrize("harmed", ["row", "page", "identity"])
def test_verify_names_damage_of_token_codes(made: Namespaces, harmed: str) -> None:
    """Each row has a checksum, and SQLite checks its pages."""
    path = made.root / "ns" / "tokens" / "codes.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        if harmed == "row":
            database.execute("UPDATE code SET data = zeroblob(length(data)) WHERE rowid % 7 = 0")
        if harmed == "identity":
            database.execute("DELETE FROM meta")
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if harmed == "page":
        content = bytearray(path.read_bytes())
        content[-4096:-3000] = b"\xff" * 1096
        path.write_bytes(content)
    with contextlib.closing(made):
        report = verify(made, "ns")
    assert [fault for fault in report.faults if fault.startswith("tokens: ")], report.faults
