"""PDFs, read in a process that may fail without harm."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus_files import drawn_pdf, encrypted_pdf, parsed_documents, pdf, saved_pdf, swelling_pdf

from retrieval.corpus.items import PdfLimits, ReadOptions, SkippedRecord
from retrieval.corpus.readers import pdf as pdf_reader
from retrieval.errors import DOCUMENT_TOO_LARGE, DocumentUnreadable


def test_every_page_has_its_number(tmp_path: Path) -> None:
    """Pages without text leave a gap in the numbers, not in the text, and are told."""
    path = saved_pdf(tmp_path / "paper.pdf", pdf("TP53 at 5 mg", "", "End of it", title="On p53"))
    told, *rest = pdf_reader.read(path)
    assert isinstance(told, SkippedRecord) and told.line == 2
    (found,) = parsed_documents(rest)
    assert [(span.page, found.text[span.start : span.end]) for span in found.spans] == [
        (1, "TP53 at 5 mg"),
        (3, "End of it"),
    ]
    assert found.document.title == "On p53"
    assert found.document.provenance == str(path)


_TITLE = "BT /F1 20 Tf 72 700 Td (Aspirin in fever:) Tj 0 -22 Td (a trial) Tj ET "
_BODY = "BT /F1 10 Tf 72 600 Td (Aspirin lowered the fever of twelve children.) Tj ET"
_INITIAL = "BT /F1 40 Tf 60 600 Td (A) Tj ET "


@pytest.mark.parametrize(
    ("drawn", "of_properties", "title"),
    [
        (_TITLE + _BODY, "", "Aspirin in fever: a trial"),
        (_INITIAL + _TITLE + _BODY, "Microsoft Word - paper final.doc", "Aspirin in fever: a trial"),
        (_TITLE + _BODY, "manuscript_v3.dvi", "Aspirin in fever: a trial"),
        (_TITLE + _BODY, "paper", "Aspirin in fever: a trial"),
        (_TITLE + _BODY, "Fever and aspirin", "Fever and aspirin"),
        (_BODY, "", "paper"),
    ],
)
def test_the_title_is_that_of_the_properties_or_the_first_page(
    tmp_path: Path, drawn: str, of_properties: str, title: str
) -> None:
    """The name of a file is no title, its own least of all, but where the document shows none."""
    path = saved_pdf(tmp_path / "paper.pdf", drawn_pdf(drawn, title=of_properties))
    assert parsed_documents(list(pdf_reader.read(path)))[0].document.title == title


def test_a_pdf_that_only_forbids_printing_is_read(tmp_path: Path) -> None:
    """Its reader's password is empty."""
    path = saved_pdf(tmp_path / "paper.pdf", encrypted_pdf(pdf("Some words"), ""))
    assert parsed_documents(list(pdf_reader.read(path)))[0].text == "Some words"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (encrypted_pdf(pdf("Secret"), "password"), "encrypted"),
        (pdf("", ""), "pictures of pages"),
        (b"%PDF-1.4\nand nothing that a PDF has", "damaged"),
        (pdf("Some words")[:200], "damaged"),
        (b"", "damaged"),
    ],
    ids=["encrypted", "pictures", "nothing", "cut", "empty"],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    """Encrypted, without a text layer, damaged, empty."""
    with pytest.raises(DocumentUnreadable, match=reason):
        list(pdf_reader.read(saved_pdf(tmp_path / "paper.pdf", content)))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """No process is started for it."""
    with pytest.raises(DocumentUnreadable, match="No such file"):
        list(pdf_reader.read(tmp_path / "none.pdf"))


def test_a_page_that_swells_is_not_unpacked(tmp_path: Path) -> None:
    """Half a megabyte that would unpack to half a gigabyte: named as what it is, not as a page without text."""
    path = saved_pdf(tmp_path / "bomb.pdf", swelling_pdf(512 * 2**20))
    with pytest.raises(DocumentUnreadable, match="page 1: cannot be read"):
        list(pdf_reader.read(path))


def test_the_memory_limit_ends_the_reader_not_the_server(tmp_path: Path) -> None:
    """Sixty megabytes of text do not fit into what the process may have."""
    path = saved_pdf(tmp_path / "paper.pdf", swelling_pdf(60 * 2**20))
    limits = PdfLimits(memory_bytes=110 * 2**20, seconds=60)
    with pytest.raises(DocumentUnreadable, match="memory", check=DOCUMENT_TOO_LARGE.is_of):
        list(pdf_reader.read(path, ReadOptions(pdf=limits)))


def test_a_reader_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """The limit is far below what starting the process takes."""
    path = saved_pdf(tmp_path / "paper.pdf", pdf("Some words"))
    with pytest.raises(DocumentUnreadable, match="took more than", check=DOCUMENT_TOO_LARGE.is_of):
        list(pdf_reader.read(path, ReadOptions(pdf=PdfLimits(seconds=0.01))))


@pytest.mark.parametrize("limits", [PdfLimits(pages=1), PdfLimits(chars=5)])
def test_too_many_pages_or_letters_are_refused(tmp_path: Path, limits: PdfLimits) -> None:
    """Both limits are the operator's."""
    path = saved_pdf(tmp_path / "paper.pdf", pdf("Some words", "more of them"))
    with pytest.raises(DocumentUnreadable, check=DOCUMENT_TOO_LARGE.is_of):
        list(pdf_reader.read(path, ReadOptions(pdf=limits)))
