"""Single pages of PDFs: drawn, read with the places of their words, and recognized."""

from __future__ import annotations

import io
from pathlib import Path

import pypdf
import pytest
from corpus_files import encrypted_pdf, needs_tesseract, parsed_documents, pdf, saved_pdf, scan, swelling_pdf

from models.errors import Fault
from retrieval.corpus.items import ReadOptions, SkippedRecord
from retrieval.corpus.readers import pdf as pdf_reader
from retrieval.corpus.readers.pdf import PageLimits, draw_page, page_words, recognize_pages
from retrieval.errors import DOCUMENT_TOO_LARGE, DOCUMENT_UNKNOWN, CorpusError, DocumentUnreadable


def test_a_page_is_drawn_as_wide_as_asked(tmp_path: Path) -> None:
    """As a PNG with the page's shape."""
    import PIL.Image

    path = saved_pdf(tmp_path / "a.pdf", pdf("TP53 at 5 mg", "The second"))
    picture = PIL.Image.open(io.BytesIO(draw_page(path, 2, 306)))
    assert (picture.format, picture.size) == ("PNG", (306, 396))
    assert min(picture.convert("L").tobytes()) < 200, "nothing dark is on the page"


def test_words_have_their_places(tmp_path: Path) -> None:
    """In points from the top left corner, where the line was set at 72, 720 from the bottom left one."""
    found = page_words(saved_pdf(tmp_path / "a.pdf", pdf("TP53 at 5 mg")), 1)
    assert (found.pages, found.width, found.height) == (1, 612, 792)
    assert [word.text for word in found.words] == ["TP53", "at", "5", "mg"]
    first, second = found.words[:2]
    assert abs(first.x0 - 72) < 1 and 55 < first.y0 < first.y1 < 80
    assert first.x1 < second.x0 and {word.line for word in found.words} == {0}


def test_words_of_a_turned_page_are_where_they_are_seen(tmp_path: Path) -> None:
    """A quarter turn puts the first line on the right side, running down."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("TP53 at 5 mg")))
    writer.pages[0].rotate(90)
    writer.write(tmp_path / "a.pdf")
    found = page_words(tmp_path / "a.pdf", 1)
    assert (found.width, found.height) == (792, 612)
    first, second = found.words[:2]
    assert first.x0 > 700 and first.y0 < second.y0 and abs(first.x0 - second.x0) < 3


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (encrypted_pdf(pdf("Secret"), "password"), DocumentUnreadable.fault),
        (b"%PDF-1.4\nand nothing that a PDF has", DocumentUnreadable.fault),
        (pdf("One"), DOCUMENT_UNKNOWN),
    ],
    ids=["encrypted", "nothing", "no page"],
)
def test_what_cannot_be_shown_is_named(tmp_path: Path, content: bytes, fault: Fault) -> None:
    """Locked, damaged, a page behind the last one."""
    path = saved_pdf(tmp_path / "a.pdf", content)
    for task in (lambda: draw_page(path, 2, 100), lambda: page_words(path, 2)):
        with pytest.raises(CorpusError, check=fault.is_of):
            task()


def test_limits_end_the_process_not_the_server(tmp_path: Path) -> None:
    """Of time and of memory."""
    path = saved_pdf(tmp_path / "a.pdf", swelling_pdf(600 * 2**20))
    with pytest.raises(DocumentUnreadable, match="took more than", check=DOCUMENT_TOO_LARGE.is_of):
        draw_page(path, 1, 100, PageLimits(seconds=0.02))
    with pytest.raises(DocumentUnreadable):
        page_words(path, 1, PageLimits(memory_bytes=100 * 2**20))


def test_a_page_without_text_is_told(tmp_path: Path) -> None:
    """With what would help."""
    path = saved_pdf(tmp_path / "a.pdf", pdf("Some words", ""))
    told, document = pdf_reader.read(path)
    assert isinstance(told, SkippedRecord)
    assert told.line == 2 and "ocr=eng" in told.reason
    assert parsed_documents([document])[0].text == "Some words"


@needs_tesseract
def test_characters_on_pictures_of_pages_are_recognized(tmp_path: Path) -> None:
    """Each page has its number, and what was recognized is told from what was read."""
    path = saved_pdf(tmp_path / "a.pdf", scan("TP53 is a gene on chromosome 17.", "The second page speaks of BRCA1."))
    with pytest.raises(DocumentUnreadable, match="ocr=eng"):
        list(pdf_reader.read(path))
    (found,) = parsed_documents(list(pdf_reader.read(path, ReadOptions(ocr="eng"))))
    assert [(span.page, span.section) for span in found.spans] == [(1, pdf_reader.BY_OCR), (2, pdf_reader.BY_OCR)]
    assert "chromosome 17" in found.text and "BRCA1" in found.text
    assert page_words(path, 1).words == ()


@needs_tesseract
def test_an_unknown_language_is_refused(tmp_path: Path) -> None:
    """With those that there are."""
    path = saved_pdf(tmp_path / "a.pdf", scan("Some words"))
    with pytest.raises(DocumentUnreadable, match=r"no language 'xyz'.*eng"):
        list(recognize_pages(path, [1], "xyz"))
