"""Namespaces as files: out, in again, and everything that a file from elsewhere may be."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
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
from retrieval.corpus.transfer import export, import_namespace, seal
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


@pytest.mark.parametrize("target", ["out.tar", "folder"])
def test_an_export_comes_back_as_it_was(tmp_path: Path, namespaces: Namespaces, target: str) -> None:
    """Texts, passages, twins, settings; under another name, with ids of its own, indexed by the encoder there."""
    parts = export(namespaces, "ns", tmp_path / target)
    assert len(parts) == 1
    encoder = WordEncoder()
    there = Namespaces(tmp_path / "there", backends(encoder))
    assert import_namespace(there, tmp_path / target, "copy") == "copy"
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


def test_it_keeps_its_name_and_may_get_other_back_ends(tmp_path: Path, namespaces: Namespaces) -> None:
    """How it was cut stays, as the passages do."""
    export(namespaces, "ns", tmp_path / "out.tar")
    with pytest.raises(CorpusError, check=NAMESPACE_EXISTS.is_of):
        import_namespace(namespaces, tmp_path / "out.tar")
    with pytest.raises(CorpusError, check=NAMESPACE_EXISTS.is_of):
        export(namespaces, "ns", tmp_path / "out.tar")
    with pytest.raises(NamespaceInvalid):
        import_namespace(namespaces, tmp_path / "out.tar", "../x")
    namespaces.delete("ns")
    import_namespace(namespaces, tmp_path / "out.tar", settings=NamespaceSettings(words="fts"))
    found = namespaces.describe("ns")
    assert found.settings == NamespaceSettings(words="fts", chunking=SETTINGS.chunking)
    assert found.counts is not None
    assert found.counts.pending["vectors"] == 0


def test_an_export_of_the_same_is_the_same(tmp_path: Path, namespaces: Namespaces) -> None:
    """Byte for byte: no times, no names of users."""
    for name in ("a.tar", "b.tar"):
        export(namespaces, "ns", tmp_path / name)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def _flip(data: bytes) -> bytes:
    at = data.index(b"Words ", 2000)
    return data[:at] + b"words " + data[at + 6 :]


@pytest.mark.parametrize(
    "damage",
    [
        _flip,
        lambda data: data[: len(data) // 2],
        lambda data: data[:300],
        lambda _: b"",
        lambda _: b"no archive at all" * 100,
        lambda data: data.replace(b'"version": 1', b'"version": 9'),
        lambda data: data.replace(b'"documents": 121', b'"documents": 122'),
        lambda data: data.replace(b'"overlap": 0', b'"overlap": x'),
        lambda data: data.replace(b'"size": 200', b'"size": 201'),
    ],
)
def test_damage_is_refused_and_leaves_nothing(
    tmp_path: Path, namespaces: Namespaces, damage: Callable[[bytes], bytes]
) -> None:
    """One letter is enough."""
    path = tmp_path / "out.tar"
    export(namespaces, "ns", path)
    path.write_bytes(damage(path.read_bytes()))
    there = Namespaces(tmp_path / "there", backends())
    with pytest.raises(DocumentUnreadable, match=r"out\.tar"):
        import_namespace(there, path)
    assert there.names() == []
    assert [left.name for left in (tmp_path / "there").glob(".*build*")] == []


def _packed(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def _linked(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        (tarfile.TarInfo("../../evil"), None),
        (tarfile.TarInfo("../../evil"), "../../evil"),
        (tarfile.TarInfo("/etc/evil"), "/etc/evil"),
        (_linked("documents-00000.jsonl", "/etc/passwd"), "documents-00000.jsonl"),
        (tarfile.TarInfo("documents-00000.jsonl"), "documents-00001.jsonl"),
    ],
)
def test_paths_that_lead_elsewhere_are_refused(tmp_path: Path, extra: tarfile.TarInfo, named: str | None) -> None:
    """Whether or not the manifest names them; nothing is ever unpacked."""
    files = [] if named is None else [{"name": named, "bytes": 0, "sha256": "e3b0c442" + "0" * 56}]
    manifest = {
        "format": "arrowhead-namespace", "version": 1, "name": "ns", "created": "", "documents": 0,
        "settings": json.loads(SETTINGS.as_text()), "files": files,
    }  # fmt: skip
    first = tarfile.TarInfo("manifest.json")
    sealed = json.dumps(manifest | {"sha256": seal(manifest)}).encode()
    path = _packed(tmp_path / "out.tar", (first, sealed), (extra, b""))
    there = Namespaces(tmp_path / "there", backends())
    with pytest.raises(DocumentUnreadable):
        import_namespace(there, path)
    assert there.names() == []
    assert not (tmp_path / "evil").exists()


def test_a_part_that_is_a_link_in_a_folder_is_refused(tmp_path: Path, namespaces: Namespaces) -> None:
    """It could be any file of this machine."""
    export(namespaces, "ns", tmp_path / "folder")
    part = tmp_path / "folder" / "documents-00000.jsonl"
    part.rename(tmp_path / "moved")
    part.symlink_to(tmp_path / "moved")
    with pytest.raises(DocumentUnreadable, match="link"):
        import_namespace(Namespaces(tmp_path / "there", backends()), tmp_path / "folder")


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
    """Though their part's SHA-256 is right: who wrote it meant harm, or has another version."""
    folder = tmp_path / "folder"
    export(namespaces, "ns", folder)
    part = folder / "documents-00000.jsonl"
    lines = part.read_text().split("\n")
    row = json.loads(lines[3])
    change(row)
    lines[3] = json.dumps(row)
    data = "\n".join(lines).encode()
    part.write_bytes(data)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][0] |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest | {"sha256": seal(manifest)}))
    with pytest.raises(DocumentUnreadable, match="line 4 is damaged"):
        import_namespace(Namespaces(tmp_path / "there", backends()), folder)
