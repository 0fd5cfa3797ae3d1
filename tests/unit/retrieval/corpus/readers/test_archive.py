"""Zip archives of documents: unpacked within limits, each file read as if it came alone."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from corpus_doubles import WordEncoder, backends
from corpus_files import pdf

from retrieval.corpus.ingest.add import add_file, remove, try_file
from retrieval.corpus.items import ReadOptions
from retrieval.corpus.namespaces.originals import Originals
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.readers.archive import ArchiveLimits, unpacked
from retrieval.errors import DOCUMENT_TOO_LARGE, DocumentUnreadable

NAMED = ReadOptions(provenance="bundle.zip")


def _zip(path: Path, files: Mapping[str | zipfile.ZipInfo, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def namespaces(tmp_path: Path) -> Namespaces:
    found = Namespaces(tmp_path / "namespaces", backends(WordEncoder()))
    found.create("ns", NamespaceSettings(encoder="words"))
    return found


def _stored(namespaces: Namespaces) -> dict[str, str]:
    with namespaces.using("ns") as namespace:
        return {one.document.provenance: one.document.title for one in namespace.store.documents((), 100)}


def _unread(namespaces: Namespaces) -> dict[str, str]:
    with namespaces.using("ns") as namespace:
        return {one.file: one.reason for one in namespace.store.passed()}


def test_each_file_of_an_archive_is_a_document(tmp_path: Path, namespaces: Namespaces) -> None:
    """What cannot be read is listed with its reason, the rest is taken; an archive within is not opened."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("x.md", "# X\nwords")
    files: dict[str | zipfile.ZipInfo, str | bytes] = {
        "papers/a.md": "# On fever\n\nIt fell.",
        "papers/b.pdf": pdf("Some words", title="On pain"),
        "papers/.hidden.md": "# Hidden\nwords",
        "__MACOSX/papers/a.md": "resource",
        "locked.pdf": b"%PDF-1.4\nnothing",
        "inner.zip": inner.getvalue(),
        "folder/": "",
    }
    path = _zip(tmp_path / "bundle.zip", files)
    done = add_file(namespaces, "ns", path, NAMED)
    assert (done.added, done.passed) == (2, 2)
    assert _stored(namespaces) == {"bundle.zip/papers/a.md": "On fever", "bundle.zip/papers/b.pdf": "On pain"}
    unread = _unread(namespaces)
    assert unread["bundle.zip/inner.zip"] == "an archive within an archive is not read: unpack it first"
    assert "damaged" in unread["bundle.zip/locked.pdf"] and "/tmp" not in unread["bundle.zip/locked.pdf"]
    with namespaces.using("ns") as namespace:
        (kept,) = (one for one in namespace.store.documents((), 10) if one.name == "b.pdf")
        assert Originals(namespace.folder).path(kept.document.document_id) is not None


def test_an_archive_again_replaces_what_changed_and_says_what_is_still_unread(
    tmp_path: Path, namespaces: Namespaces
) -> None:
    """What could be read by now is not listed any more."""
    add_file(namespaces, "ns", _zip(tmp_path / "1.zip", {"a.md": "# One\nwords", "b.md": "# Two\nwords"}), NAMED)
    again = try_file(namespaces, "ns", _zip(tmp_path / "2.zip", {"a.md": "# One\nwords", "b.md": b"\0\1"}), NAMED)
    assert (again.outcome, again.report.passed) == ("added", 1)
    assert list(_unread(namespaces)) == ["bundle.zip/b.md"]
    last = _zip(tmp_path / "3.zip", {"a.md": "# One\nwords", "b.md": "# Three\nwords"})
    assert add_file(namespaces, "ns", last, NAMED).added == 1
    assert _stored(namespaces) == {"bundle.zip/a.md": "One", "bundle.zip/b.md": "Three"}
    assert _unread(namespaces) == {}
    assert try_file(namespaces, "ns", last, NAMED).outcome == "unchanged"


def test_an_archive_of_which_nothing_can_be_read_is_refused(tmp_path: Path, namespaces: Namespaces) -> None:
    """With the first reason; its removal leaves nothing listed of a file."""
    found = try_file(namespaces, "ns", _zip(tmp_path / "a.zip", {"a.bin": b"\0\1"}))
    assert found.outcome == "refused" and found.refused is not None
    assert "none of its 1 files can be read" in found.refused.message
    assert sorted(_unread(namespaces)) == ["a.zip", "a.zip/a.bin"]
    add_file(namespaces, "ns", _zip(tmp_path / "a.zip", {"a.md": "words of a file"}))
    assert _unread(namespaces) == {}
    remove(namespaces, "ns", ["a.md"])
    assert _stored(namespaces) == {}


def test_names_that_lead_elsewhere_and_links_are_not_followed(tmp_path: Path) -> None:
    """They are named with the reason, and nothing is written outside."""
    link = zipfile.ZipInfo("link.md")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    names = ["../evil.md", "/etc/evil.md", "a/../../evil.md", "c\\evil.md", f"{'n' * 300}.md"]
    path = _zip(tmp_path / "a.zip", {**dict.fromkeys(names, "x"), link: "/etc/passwd", "good.md": "x"})
    with unpacked(path) as members:
        assert {one.name: bool(one.reason) for one in members if one.name in (*names, "good.md", "link.md")} == {
            **dict.fromkeys(names[:4], True),
            "link.md": True,
            "good.md": False,
        }
        (good,) = (one.path for one in members if not one.reason)
        assert good.read_text() == "x"
        folder = good.parents[1]
        assert [found for found in folder.rglob("*") if found.is_file()] == [good]
    assert not folder.exists()
    assert not list(tmp_path.rglob("evil.md"))


def test_a_list_of_files_that_needs_too_much_memory_is_refused(tmp_path: Path) -> None:
    path = _zip(tmp_path / "a.zip", {f"{number}{'n' * 60_000}": b"" for number in range(300)})
    with pytest.raises(DocumentUnreadable), unpacked(path, ArchiveLimits(memory_bytes=1 << 20)):
        pass


@pytest.mark.parametrize("limits", [ArchiveLimits(files=2), ArchiveLimits(bytes=2**20)])
def test_an_archive_over_a_limit_is_refused_as_a_whole(tmp_path: Path, limits: ArchiveLimits) -> None:
    """Too many files, a bomb of three megabytes in a few kB."""
    path = _zip(tmp_path / "a.zip", {f"{number}.md": b"\0" * 2**20 for number in range(3)})
    with pytest.raises(DocumentUnreadable), unpacked(path, limits):
        pass


def test_a_bomb_that_lies_about_its_size_is_cut_off(tmp_path: Path) -> None:
    """What counts is what comes out, whatever the list of files says."""
    path = _zip(tmp_path / "a.zip", {"a.md": b"\0" * 2**22})
    data = path.read_bytes().replace((2**22).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(data)
    with unpacked(path, ArchiveLimits(bytes=2**20)) as members:
        assert [bool(one.reason) for one in members] == [True]
    with (
        pytest.raises(DocumentUnreadable, check=DOCUMENT_TOO_LARGE.is_of),
        unpacked(_zip(tmp_path / "b.zip", {"a.md": b"\0" * 2**22}), ArchiveLimits(bytes=2**20)),
    ):
        pass


def test_a_damaged_archive_is_told(tmp_path: Path) -> None:
    """Cut off, or with a file whose sum is wrong."""
    path = _zip(tmp_path / "a.zip", {"a.md": "words " * 100, "b.md": "more"})
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(DocumentUnreadable, match="damaged"), unpacked(path):
        pass
    path.write_bytes(whole[:40] + b"\xff\xff" + whole[42:])
    with unpacked(path) as members:
        assert [bool(one.reason) for one in members] == [True, False]


def test_names_that_macos_writes_are_letters(tmp_path: Path) -> None:
    """UTF-8, without the flag that says so."""
    path = _zip(tmp_path / "a.zip", {"Ubung.md": "x"})
    path.write_bytes(path.read_bytes().replace(b"Ubung.md", "Übung.m".encode()))
    with unpacked(path) as members:
        assert [one.name for one in members] == ["Übung.m"]
