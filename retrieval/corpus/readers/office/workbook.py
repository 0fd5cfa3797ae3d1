"""Read workbooks (.xlsx): a sheet with a column of texts or titles is a table of documents, the others are one.

Values stand as the sheet has them: percentages with their sign, days as yyyy-mm-dd, what a formula last gave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, time
from itertools import groupby
from pathlib import Path
from typing import Any

from retrieval.corpus.items import NO_OPTIONS, Item, ReadOptions, TextBuilder
from retrieval.corpus.readers.office.package import office_document, opened, placed
from retrieval.corpus.readers.tables import is_header, row_item
from retrieval.errors import DocumentUnreadable
from retrieval.formats.notation import plain
from retrieval.formats.table_grid import SEPARATOR

_Row = tuple[int, list[str]]


def read(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each row of the sheets that are tables of documents, then one of all other sheets.

    Raises:
        DocumentUnreadable: the package is damaged, encrypted, or holds no words; it would unpack to more than 512 MiB.
    """
    import openpyxl

    text, shown, found = TextBuilder(), "", False
    # By its name alone, the library would refuse one that is called otherwise.
    with opened(path, "workbook"), path.open("rb") as file:
        book = openpyxl.load_workbook(file, data_only=True, rich_text=True, keep_links=False)
        about = (book.properties.title or "", book.properties.creator or "")
        several = len(book.worksheets) > 1
        for sheet in book.worksheets:
            rows = list(_rows(sheet))
            if len(rows) > 1 and is_header(rows[0][1]):
                of_sheet = path.with_name(f"{path.stem}:{sheet.title}{path.suffix}")
                named = replace(options, provenance=options.provenance or path.name)
                for line, cells in rows[1:]:
                    found = True
                    yield row_item(of_sheet, line, rows[0][1], cells, named)
                continue
            shown = shown or _heading(rows)
            text.add("\n".join(SEPARATOR.join(cells) for _, cells in rows), sheet.title if several else "")
    if len(text):
        yield text.reading(office_document(path, "xlsx", (shown, ""), about, options))
    elif not found:
        raise DocumentUnreadable(f"{path}: the workbook holds no words")


def _rows(sheet: Any) -> Iterator[_Row]:
    """Yield (number, cells) of the rows that are not empty, without the empty cells at their end."""
    # Its iter_rows would make every empty cell up to the last one, which may stand a million rows below.
    filled = sorted((place, text) for place, cell in sheet._cells.items() if (text := _cell_text(cell)))
    for number, row in groupby(filled, key=lambda one: one[0][0]):
        cells: list[str] = []
        for (_, column), text in row:
            cells += [""] * (column - 1 - len(cells))
            cells.append(text)
        yield number, cells


def _heading(rows: list[_Row]) -> str:
    """Return the words that stand alone in the first row."""
    words = list(filter(None, rows[0][1])) if len(rows) > 1 else []
    return words[0] if len(words) == 1 and any(map(str.isalpha, words[0])) else ""


def _cell_text(cell: Any) -> str:
    value = cell.value
    match value:
        case None:
            return ""
        case bool():
            return "TRUE" if value else "FALSE"
        case datetime():
            return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "minutes")
        case date() | time():
            return value.isoformat()
        case int() | float():
            is_share = "%" in str(cell.number_format)
            return f"{value * 100:.15g}%" if is_share else f"{value:.15g}"
        case list():  # pieces of a rich text
            return " ".join(plain("".join(map(_piece, value))).split())
        case _:
            return " ".join(str(value).split())


def _piece(part: Any) -> str:
    if isinstance(part, str):
        return part
    place = getattr(part.font, "vertAlign", None)
    return placed(part.text, {"superscript": 1, "subscript": -1}.get(str(place), 0))
