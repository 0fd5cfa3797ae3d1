"""Namespaces as files: out, in again, and what a file from elsewhere may be."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpus_doubles import WordEncoder, backends
from corpus_files import reading

from retrieval.corpus.chunking import Chunking
from retrieval.corpus.ingest.add import add_items, catch_up
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.namespaces.verify import verify
from retrieval.corpus.transfer import export, import_namespace
from retrieval.errors import NAMESPACE_EXISTS, CorpusError, DocumentUnreadable, NamespaceInvalid

SETTINGS = NamespaceSettings(encoder="words", chunking=Chunking(size=200))
LONG = "The same hundred letters and more, as publishers print an abstract twice: once in the journal, once elsewhere."


@pytest.fixture
def namespaces(tmp_path: Path) -> Namespaces:
    found = Namespaces(tmp_path / "here", backends())
    found.create("ns", SETTINGS, created="2026-11-21")
    documents = [reading(f"PMID:{n}", f"Words – {n} β", "Bye. " * n, date=20200100 + n) for n in range(1, 120)]
    add_items(found, "ns", [*documents, reading("PMC:1", LONG, authors=("A B",)), reading("PMC:2", LONG)])
    return found


def test_an_export_comes_back_as_it_was(tmp_path: Path, namespaces: Namespaces) -> None:
    """Texts, passages, twins, settings; under another name, with ids of its own, indexed by the encoder there."""
    path = tmp_path / "out.gz"
    assert export(namespaces, "ns", path) == path.stat().st_size
    encoder = WordEncoder()
    there = Namespaces(tmp_path / "there", backends(encoder))
    assert import_namespace(there, path, "copy") == "copy"
    catch_up(there, "copy")
    before, after = verify(namespaces, "ns"), verify(there, "copy")
    assert after.faults == ()
    assert (after.sha256, after.passages, after.documents) == (before.sha256, before.passages, before.documents)
    assert encoder.encoded == after.passages
    with namespaces.using("ns") as old, there.using("copy") as new:
        assert new.settings == old.settings
        assert new.store.counts().twins == old.store.counts().twins > 0
        texts = [[(p.document_id, p.start, p.section, p.text) for p in one.store.passages()] for one in (old, new)]
        assert texts[0] == texts[1]
    encoder.encoded = 0
    with namespaces.using("ns") as old:
        again = add_items(there, "copy", [found for found, _ in old.store.parsed_documents()])
    assert (again.unchanged, encoder.encoded) == (121, 0)


def test_it_keeps_its_name_and_settings(tmp_path: Path, namespaces: Namespaces) -> None:
    """Also how it was cut, as the passages do."""
    export(namespaces, "ns", tmp_path / "out.gz")
    with pytest.raises(CorpusError, check=NAMESPACE_EXISTS.is_of):
        import_namespace(namespaces, tmp_path / "out.gz")
    with pytest.raises(CorpusError, check=NAMESPACE_EXISTS.is_of):
        export(namespaces, "ns", tmp_path / "out.gz")
    with pytest.raises(NamespaceInvalid):
        import_namespace(namespaces, tmp_path / "out.gz", "../x")
    namespaces.delete("ns")
    import_namespace(namespaces, tmp_path / "out.gz")
    assert namespaces.describe("ns").settings == SETTINGS


def test_an_export_of_the_same_is_the_same(tmp_path: Path, namespaces: Namespaces) -> None:
    """Byte for byte: no times, no names of users."""
    for name in ("a.gz", "b.gz"):
        export(namespaces, "ns", tmp_path / name)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def _rewritten(change: Callable[[str], str]) -> Callable[[bytes], bytes]:
    return lambda data: gzip.compress(change(gzip.decompress(data).decode()).encode())


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-30] + b"x" + data[-29:],
        lambda data: data[: len(data) // 2],
        lambda data: data[:30],
        lambda _: b"",
        lambda _: b"no archive at all" * 100,
        _rewritten(lambda text: text.replace('"version": 2', '"version": 9')),
        _rewritten(lambda text: text.replace('"documents": 121', '"documents": 122')),
        _rewritten(lambda text: text.replace('"documents": 121', '"documents": 1e999')),
        _rewritten(lambda text: text.replace('"overlap": 0', '"overlap": x')),
        _rewritten(lambda text: text[: len(text) // 2]),
        _rewritten(lambda text: "[]\n" + text),
    ],
)
def test_damage_is_refused_and_leaves_nothing(
    tmp_path: Path, namespaces: Namespaces, damage: Callable[[bytes], bytes]
) -> None:
    """One letter is enough."""
    path = tmp_path / "out.gz"
    export(namespaces, "ns", path)
    path.write_bytes(damage(path.read_bytes()))
    there = Namespaces(tmp_path / "there", backends())
    with pytest.raises(DocumentUnreadable, match=r"out\.gz"):
        import_namespace(there, path)
    assert there.names() == []
    assert [left.name for left in (tmp_path / "there").glob(".*build*")] == []


CHANGES: list[Callable[[dict[str, Any]], object]] = [
    lambda row: row["passages"][0].__setitem__(1, 10**6),
    lambda row: row["spans"][0].__setitem__(0, -1),
    lambda row: row.update(text=""),
    lambda row: row["document"].update(authors="one"),
    lambda row: row["document"].update(surplus="x"),
    lambda row: row.update(text="\ud800" + row["text"][1:]),
]


@pytest.mark.parametrize("change", CHANGES)
def test_rows_that_do_not_fit_their_text_are_refused(
    tmp_path: Path, namespaces: Namespaces, change: Callable[[dict[str, Any]], object]
) -> None:
    """Who wrote it meant harm, or has another version."""
    path = tmp_path / "out.gz"
    export(namespaces, "ns", path)
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    row = json.loads(lines[3])
    change(row)
    lines[3] = json.dumps(row)
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    with pytest.raises(DocumentUnreadable, match="line 4 is damaged"):
        import_namespace(Namespaces(tmp_path / "there", backends()), path)
