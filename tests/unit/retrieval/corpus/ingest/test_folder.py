"""A namespace that follows a folder: new, changed, moved and removed files, and what must not be followed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from corpus_doubles import WordEncoder, backends
from corpus_files import needs_tesseract, pdf, scan

from retrieval.corpus.ingest.add import ChangeHooks
from retrieval.corpus.ingest.folder import (
    FolderReader,
    Listing,
    Plan,
    Unfinished,
    copied,
    known_files,
    listing_of,
    plan_of,
    read_files,
)
from retrieval.corpus.items import ReadOptions
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings

MANY = "PMID- 1\nTI  - First\n\nPMID- 2\nTI  - Second\n"
MAX = 100_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


@pytest.fixture
def namespaces(tmp_path: Path) -> Namespaces:
    found = Namespaces(tmp_path / "namespaces", backends(WordEncoder()))
    found.create("ns", NamespaceSettings(encoder="words"))
    return found


def _put(root: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def _follow(namespaces: Namespaces, root: Path, ocr: str = "") -> Plan:
    """Do what looks at the folder ask for, until nothing is left; return the first plan."""
    plans: list[Plan] = []
    while not plans or plans[-1] != Plan():
        assert len(plans) < 5, "there is always something left"
        now = listing_of(root)
        plans.append(plan_of(known_files(namespaces, "ns"), now, now, ocr))
        reader = FolderReader(namespaces, "ns", root, ChangeHooks())
        reader.remove(plans[-1].removed)
        read_files(reader, {file: now.files[file] for file in plans[-1].changed}, ReadOptions(ocr=ocr), MAX)
    return plans[0]


def _titles(namespaces: Namespaces) -> dict[str, str]:
    with namespaces.using("ns") as namespace:
        return {one.document.title: one.document.provenance for one in namespace.store.documents((), 100)}


def _unread(namespaces: Namespaces) -> dict[str, str]:
    with namespaces.using("ns") as namespace:
        return {one.file: one.reason for one in namespace.store.passed()}


def test_new_changed_and_removed_files_are_followed(namespaces: Namespaces, root: Path) -> None:
    """Only what changed is read, also in a later process."""
    _put(root, {"a.md": "# One\nwords", "deep/b.md": "# Two\nwords", "c.nbib": MANY})
    assert sorted(_follow(namespaces, root).changed) == ["a.md", "c.nbib", "deep/b.md"]
    assert _titles(namespaces).keys() == {"One", "Two", "First", "Second"}
    assert _follow(namespaces, root) == Plan()

    _put(root, {"a.md": "# Three\nwords", "c.nbib": "PMID- 2\nTI  - Another\n", "d.pdf": pdf("New", title="Four")})
    (root / "deep/b.md").unlink()
    plan = _follow(namespaces, root)
    assert (plan.removed, sorted(plan.changed)) == (("deep/b.md",), ["a.md", "c.nbib", "d.pdf"])
    assert _titles(namespaces) == {"Three": "./a.md", "Another": "./c.nbib", "Four": "./d.pdf"}


def test_a_document_stays_while_any_file_has_it(namespaces: Namespaces, root: Path) -> None:
    """Of two copies one is removed, one is moved, and one file becomes a copy of another; records are in two files."""
    _put(root, {"a.md": "# One\nwords", "b.md": "# One\nwords", "c.nbib": MANY, "d.nbib": MANY.replace("- 2", "- 3")})
    _follow(namespaces, root)
    (root / "a.md").unlink()
    (root / "c.nbib").unlink()
    _follow(namespaces, root)
    with namespaces.using("ns") as namespace:
        assert sorted(namespace.store.document_ids("PMID:")) == ["PMID:1", "PMID:3"]
    assert _titles(namespaces)["One"] == "./b.md"

    (root / "d.nbib").unlink()
    (root / "b.md").rename(root / "moved.md")
    _put(root, {"e.md": "# Five\nwords", "f.md": "# Six\nwords"})
    _follow(namespaces, root)
    assert _titles(namespaces) == {"One": "./moved.md", "Five": "./e.md", "Six": "./f.md"}
    _put(root, {"f.md": "# Five\nwords"})
    _follow(namespaces, root)
    assert _titles(namespaces).keys() == {"One", "Five"}
    (root / "e.md").unlink()
    _follow(namespaces, root)
    assert _titles(namespaces) == {"One": "./moved.md", "Five": "./f.md"}


def test_what_cannot_be_read_is_listed_until_it_changes_or_goes(namespaces: Namespaces, root: Path) -> None:
    """It is not read again and again, and one too large not at all."""
    _put(root, {"a.pdf": b"%PDF-1.4 nothing", "b.md": "word " * MAX, "c.md": "# Three\nwords"})
    _follow(namespaces, root)
    assert _titles(namespaces).keys() == {"Three"}
    unread = _unread(namespaces)
    assert unread.keys() == {"./a.pdf", "./b.md"}
    assert "damaged" in unread["./a.pdf"] and "retrieval.max_upload_bytes" in unread["./b.md"]
    _put(root, {"a.pdf": pdf("Whole words", title="Mended")})
    (root / "b.md").unlink()
    _follow(namespaces, root)
    assert _titles(namespaces).keys() == {"Three", "Mended"}
    assert _unread(namespaces) == {}


def test_a_file_that_was_touched_is_not_read_again(namespaces: Namespaces, root: Path) -> None:
    """Its content is the same."""
    _put(root, {"a.md": "# One\nwords"})
    _follow(namespaces, root)
    with namespaces.using("ns") as namespace:
        place = namespace.store.documents((), 1)[0].place
    os.utime(root / "a.md", (1, 1))
    assert _follow(namespaces, root).changed == ("a.md",)
    with namespaces.using("ns") as namespace:
        assert [one.place for one in namespace.store.documents((), 9)] == [place]


@needs_tesseract
def test_scanned_pages_are_read_where_languages_are_named(namespaces: Namespaces, root: Path) -> None:
    """Also of files that were looked at before; others keep their documents, and nothing is read a third time."""
    _put(root, {"scan.pdf": scan("TP53 is a gene on chromosome 17."), "c.nbib": MANY, "a.md": "# One\nwords"})
    assert len(_follow(namespaces, root).changed) == 3
    assert "retrieval.folders_ocr" in _unread(namespaces)["./scan.pdf"]
    with namespaces.using("ns") as namespace:
        places = {one.document.title: one.place for one in namespace.store.documents((), 9)}

    _follow(namespaces, root, "eng")
    assert _unread(namespaces) == {} and _follow(namespaces, root, "eng") == Plan()
    with namespaces.using("ns") as namespace:
        found = {one.document.title: one for one in namespace.store.documents((), 9)}
        assert {title: found[title].place for title in places} == places
        (scanned,) = found.keys() - places.keys()
        (passage,) = namespace.store.document_passages(found[scanned].document.document_id, 9)
    assert "chromosome 17" in passage.text


def test_links_hidden_files_and_drafts_are_not_listed(root: Path, tmp_path: Path) -> None:
    """Nor is anything that is no file."""
    _put(tmp_path, {"outside/secret.md": "# Secret\nwords"})
    _put(root, {"a.md": "x", ".hidden.md": "x", "~$a.docx": "x", "b.pdf.part": "x", ".git/c.md": "x"})
    (root / "link.md").symlink_to(tmp_path / "outside/secret.md")
    (root / "linked").symlink_to(tmp_path / "outside")
    os.mkfifo(root / "pipe.md")
    found = listing_of(root)
    assert (list(found.files), found.problem) == (["a.md"], "")


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_link_that_takes_the_place_of_a_file_is_not_read(root: Path, tmp_path: Path, linked: str) -> None:
    """Between the look and the reading."""
    _put(root, {"deep/a.md": "words"})
    stamp = listing_of(root).files["deep/a.md"]
    _put(tmp_path, {"outside/a.md": "words"})
    if linked == "file":
        (root / "deep/a.md").unlink()
        (root / "deep/a.md").symlink_to(tmp_path / "outside/a.md")
    else:
        (root / "deep").rename(tmp_path / "away")
        (root / "deep").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        copied(root, "deep/a.md", stamp, tmp_path / "copy")


def test_a_file_that_is_still_written_is_left_for_later(namespaces: Namespaces, root: Path, tmp_path: Path) -> None:
    """Two looks must find the same, and the reading too."""
    _put(root, {"a.md": "# One\nwor"})
    before = listing_of(root)
    _put(root, {"a.md": "# One\nwords and more"})
    now = listing_of(root)
    assert plan_of({}, now, before) == Plan()
    assert plan_of({}, now, Listing({})) == Plan()
    for number, name in enumerate(("a.md", "gone.md")):
        with pytest.raises(Unfinished):
            copied(root, name, before.files["a.md"], tmp_path / f"copy{number}")
    read_files(FolderReader(namespaces, "ns", root, ChangeHooks()), before.files, ReadOptions(), MAX)
    assert _titles(namespaces) == {} and known_files(namespaces, "ns") == {}


def test_nothing_is_removed_where_the_folder_cannot_be_seen_whole(namespaces: Namespaces, root: Path) -> None:
    """It is gone, or a file of it cannot be named."""
    _put(root, {"a.md": "# One\nwords"})
    _follow(namespaces, root)
    known = known_files(namespaces, "ns")
    gone = listing_of(root / "nothing")
    assert "cannot be read" in gone.problem
    assert plan_of(known, gone, gone) == Plan()
    (root / "a.md").rename(root / "bad\nname.md")
    odd = listing_of(root)
    assert "rename it" in odd.problem
    assert plan_of(known, odd, odd) == Plan()


def test_reading_ends_with_its_cancellation_and_goes_on_from_there(namespaces: Namespaces, root: Path) -> None:
    """What was read by then is known."""
    _put(root, {"a.md": "# One\nwords", "b.md": "# Two\nwords"})
    hooks = ChangeHooks(cancelled=lambda: bool(_titles(namespaces)))
    read_files(FolderReader(namespaces, "ns", root, hooks), listing_of(root).files, ReadOptions(), MAX)
    assert len(_titles(namespaces)) == 1
    _follow(namespaces, root)
    assert _titles(namespaces).keys() == {"One", "Two"}
