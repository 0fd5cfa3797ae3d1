"""Files read in a process of their own: what they give, and how each of its ends is told. No test measures time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from corpus_files import CHAPTER, jats, json_lines, pdf, saved_pdf
from ncbi_files import pubmed_record, pubmed_set

from retrieval.corpus.items import FileLimits, Item, ReadOptions
from retrieval.corpus.readers.isolated import reading
from retrieval.corpus.readers.registry import guess_reader, reader
from retrieval.errors import DOCUMENT_TOO_LARGE, DocumentUnreadable

OPTIONS = ReadOptions(retrieved="2026-01-02", licence="CC0", provenance="where it is from")
ODD = "tests.data.odd_reader_child"
REMOVED = "<DeleteCitation><PMID>9</PMID></DeleteCitation>"
FILES = {
    "set.xml": pubmed_set(pubmed_record("7"), "<Odd/>", REMOVED),
    "full.xml": jats(),
    "article-100024.nxml": CHAPTER,
    "a.jsonl": json_lines({"id": "a_0", "title": "a", "content": "The heart \u2028 beats."}),
    "note.md": "# Title #\n\nWords of a note.\n\n## Part\n\nMore.\n",
    "pubmed.json": '{"7": {"d": "20071115", "t": "T", "a": "The words."}, "x": {}}',
}


def _items(path: Path, options: ReadOptions = OPTIONS, child: str | None = None) -> list[Item]:
    with reading(path, options, child=child) if child else reading(path, options) as file:
        return list(file.items)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_gives_the_same_items_as_its_reader(tmp_path: Path, name: str) -> None:
    """Documents, withdrawals and skipped records of every kind of file, equal in every field."""
    path = tmp_path / name
    path.write_text(FILES[name])

    with reading(path, OPTIONS) as file:
        assert file.kind == guess_reader(path)
        items = list(file.items)
        assert list(file.items) == []

    assert items == list(reader(file.kind)(path, OPTIONS))
    assert items


def test_a_pdf_is_read_by_the_process_for_pdfs(tmp_path: Path) -> None:
    """Guessed in one process and read in another."""
    path = saved_pdf(tmp_path / "paper.pdf", pdf("TP53 at 5 mg"))

    with reading(path, OPTIONS) as file:
        assert (file.kind, list(file.items)) == ("pdf", list(reader("pdf")(path, OPTIONS)))


@pytest.mark.parametrize("doing", ["hang in C", "wait"])
def test_a_reader_that_does_not_come_back_is_ended(tmp_path: Path, doing: str) -> None:
    """Whether it computes inside a library or waits; the error names the file and the bound."""
    path = tmp_path / "odd.txt"
    path.write_text(doing)
    options = ReadOptions(limits=FileLimits(seconds=1.0, seconds_per_mib=2.0))

    with pytest.raises(
        DocumentUnreadable,
        match=r"odd\.txt: reading it took too long: more than 1 s .* 2 s a MiB",
        check=DOCUMENT_TOO_LARGE.is_of,
    ):
        _items(path, options, ODD)


@pytest.mark.parametrize("doing", ["die", "half a line", "end without an end"])
def test_a_reader_that_breaks_is_a_fault_of_the_file(tmp_path: Path, doing: str) -> None:
    """However its process ends before it has said that it has read everything."""
    path = tmp_path / "odd.txt"
    path.write_text(doing)

    with pytest.raises(DocumentUnreadable, match=r"odd\.txt: its reader broke"):
        _items(path, ReadOptions(), ODD)


def test_a_file_that_swells_in_memory_is_refused(tmp_path: Path) -> None:
    """Four megabytes of empty elements, which become a tree of hundreds."""
    path = tmp_path / "swells.xml"
    path.write_text(jats(body="<p/>" * 2**21))
    limit = 160 * 2**20

    with pytest.raises(
        DocumentUnreadable,
        match=rf"swells\.xml: reading it needs more than {limit} bytes",
        check=DOCUMENT_TOO_LARGE.is_of,
    ):
        _items(path, ReadOptions(limits=FileLimits(memory_bytes=limit)))


def test_a_cancelled_reading_ends_early(tmp_path: Path) -> None:
    """Also while its reader has nothing to give."""
    path = tmp_path / "odd.txt"
    path.write_text("wait")

    with reading(path, ReadOptions(), lambda: True, ODD) as file:
        assert list(file.items) == []


def test_no_process_is_left_where_the_items_are_not_taken(tmp_path: Path) -> None:
    """The block ends it."""
    path = tmp_path / "odd.txt"
    path.write_text("wait")
    with reading(path, ReadOptions(), child=ODD) as file:
        process = int(file.kind.removeprefix("process "))
        os.kill(process, 0)

    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_what_cannot_be_read_is_told_as_its_reader_tells_it(tmp_path: Path) -> None:
    """A missing, an empty and a cut file; what came before the cut is given."""
    cut = tmp_path / "cut.xml"
    cut.write_text(pubmed_set(pubmed_record("7"), pubmed_record("8"))[:-200])
    (tmp_path / "empty.txt").touch()
    with pytest.raises(DocumentUnreadable, match=r"none\.txt: cannot be read: No such file"):
        _items(tmp_path / "none.txt")
    with pytest.raises(DocumentUnreadable, match=r"empty\.txt: the file is empty"):
        _items(tmp_path / "empty.txt")
    with reading(cut, OPTIONS) as file:
        next(file.items)
        with pytest.raises(DocumentUnreadable, match=r"cut\.xml: line \d+: .* it is cut"):
            next(file.items)


@pytest.mark.parametrize("name", ["a", "article"])
def test_a_file_nested_without_end_is_refused_by_its_depth(tmp_path: Path, name: str) -> None:
    """1.4 MB, 200,000 elements deep: the error names the file and the bound."""
    path = tmp_path / "deep.xml"
    path.write_text(f"<pmc-articleset>{f'<{name}>' * 200_000}{f'</{name}>' * 200_000}</pmc-articleset>")

    with pytest.raises(DocumentUnreadable, match=r"deep\.xml: line 1: .* nested more than 200 deep"):
        _items(path)
