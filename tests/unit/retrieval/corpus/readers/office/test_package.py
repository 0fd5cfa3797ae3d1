"""What kind of zip file one is."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pptx
import pytest

from retrieval.corpus.readers.office import slides, word, workbook
from retrieval.corpus.readers.office.package import ARCHIVE, package_kind
from retrieval.errors import DocumentUnreadable


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("[Content_Types].xml", "word/document.xml"), "docx"),
        (("[Content_Types].xml", "ppt/presentation.xml"), "pptx"),
        (("[Content_Types].xml", "xl/workbook.xml"), "xlsx"),
        (("[Content_Types].xml", "xl/workbook.bin"), ""),
        (("mimetype", "content.xml"), ""),
        (("a.pdf", "b/c.md"), ARCHIVE),
        ((), ""),
    ],
)
def test_packages_are_told_from_archives_of_files(tmp_path: Path, names: tuple[str, ...], kind: str) -> None:
    """Those of other programs are neither."""
    path = tmp_path / "a.bin"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    assert package_kind(path) == kind


def _word(path: Path) -> None:
    document = docx.Document()
    document.add_paragraph("WORDS")
    document.save(str(path))


def _slides(path: Path) -> None:
    deck = pptx.Presentation()
    deck.slides.add_slide(deck.slide_layouts[0]).shapes.title.text = "WORDS"
    deck.save(str(path))


def _workbook(path: Path) -> None:
    book = openpyxl.Workbook()
    book.active["A1"] = "WORDS"
    book.save(path)


@pytest.mark.parametrize(
    ("make", "read", "part"),
    [
        (_word, word.read, "word/document.xml"),
        (_slides, slides.read, "ppt/slides/slide1.xml"),
        (_workbook, workbook.read, "xl/worksheets/sheet1.xml"),
    ],
)
@pytest.mark.parametrize("declared", ['<!ENTITY x SYSTEM "file://{secret}">', "<!ENTITY y 'ha'><!ENTITY x '&y;&y;'>"])
def test_a_package_that_declares_entities_is_refused(
    tmp_path: Path, make: Callable[[Path], None], read: Callable[[Path], Any], part: str, declared: str
) -> None:
    """They could name other files, or grow without end."""
    secret = tmp_path / "secret.txt"
    secret.write_text("the-secret")
    plain, path = tmp_path / "plain.bin", tmp_path / "a.bin"
    make(plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            data = source.read(name).decode("utf-8", "surrogateescape")
            if name == part:
                rest = data[data.index("?>") + 2 :] if data.startswith("<?xml") else data
                data = f"<!DOCTYPE x [{declared.format(secret=secret)}]>{rest.replace('WORDS', 'WORDS &x;')}"
                data = data.replace("</row>", "<c t='inlineStr'><is><t>&x;</t></is></c></row>")
            target.writestr(name, data.encode("utf-8", "surrogateescape"))
    assert "WORDS" in str(list(read(plain)))
    with pytest.raises(DocumentUnreadable, match="declares entities"):
        list(read(path))
