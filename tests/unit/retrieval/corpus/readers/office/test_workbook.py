"""Workbooks."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import openpyxl
import pytest
from corpus_files import parsed_documents, slices
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont

from retrieval.corpus.items import SkippedRecord
from retrieval.corpus.readers.office import workbook
from retrieval.errors import DocumentUnreadable


def test_sheets_are_read_as_they_show_their_values(tmp_path: Path) -> None:
    """Percentages, days and powers; the words alone in the first row are the title."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Doses"
    power = CellRichText("10", TextBlock(InlineFont(vertAlign="superscript"), "6"))
    for row in (
        ["Doses of aspirin"],
        [],
        ["Drug", "Share", "Day", "Cells"],
        ["aspirin", 0.125, date(2026, 1, 2), power],
    ):
        sheet.append(row)
    sheet["B4"].number_format = "0.0%"
    book.create_sheet("Empty")
    path = tmp_path / "table.xlsx"
    book.save(path)
    (found,) = parsed_documents(list(workbook.read(path)))
    assert found.document.title == "Doses of aspirin"
    assert slices(found) == [
        ("Doses", "Doses of aspirin\nDrug | Share | Day | Cells\naspirin | 12.5% | 2026-01-02 | 10⁶")
    ]


def test_a_sheet_of_articles_is_read_article_by_article(tmp_path: Path) -> None:
    """As a table in CSV is; what is no article is named with its row."""
    book = openpyxl.Workbook()
    for row in (["PMID", "Title", "Abstract"], [7, "On fever", "It fell."], ["", "", ""], [8, None, None]):
        book.active.append(row)
    path = tmp_path / "articles.xlsx"
    book.save(path)
    first, second = workbook.read(path)
    (found,) = parsed_documents([first])
    assert (found.document.document_id, found.document.title, found.text) == ("PMID:7", "On fever", "It fell.")
    assert found.document.provenance == "articles.xlsx"
    assert isinstance(second, SkippedRecord) and second.line == 4


def test_a_workbook_without_words_is_refused(tmp_path: Path) -> None:
    """And one that is cut off."""
    path = tmp_path / "table.xlsx"
    openpyxl.Workbook().save(path)
    with pytest.raises(DocumentUnreadable, match="no words"):
        list(workbook.read(path))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DocumentUnreadable, match="damaged"):
        list(workbook.read(path))
