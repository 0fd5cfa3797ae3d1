"""Read tables with named columns (CSV, TSV): one document a row."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from retrieval.corpus.items import (
    NO_OPTIONS,
    Item,
    ReadOptions,
    SkippedRecord,
    TextBuilder,
    first_date,
    paper_ids,
    unreadable_file,
)
from retrieval.corpus.readers.plain import read_decoded
from retrieval.errors import DocumentUnreadable
from retrieval.passages import Document

# The names under which programs write what is read of a row, the first ones first.
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("abstract", "text", "content", "contents", "body", "full_text", "passage"),
    "title": ("title", "article_title", "titles"),
    "id": ("id", "_id", "doc_id", "docid", "document_id", "cord_uid", "passage_id"),
    "pmid": ("pmid", "pubmed_id", "pubmedid", "pubmed"),
    "pmcid": ("pmcid", "pmc_id", "pmc"),
    "doi": ("doi",),
    "url": ("url", "link"),
    "authors": ("authors", "author"),
    "journal": ("journal", "journal/book", "journal_title", "source_title"),
    "date": ("date", "publication_date", "publish_time", "publication_year", "year", "create_date"),
    "licence": ("licence", "license"),
}
_DELIMITERS: Final = "\t,;|"
_MAX_CELL: Final = 16 * 2**20
_NAME: Final = re.compile(r"[\s-]+")


def delimiter_of(lines: list[str]) -> str:
    """Return the delimiter of a table by its first lines, "" for text that is no table with a text or title column.

    The header names such a column, and the next row has as many cells, or fewer by empty ones at its end.
    """
    for delimiter in _DELIMITERS:
        try:
            table = list(csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter))
        except csv.Error:
            continue
        if len(table) > 1 and len(table[0]) > 1 and 1 < len(table[1]) <= len(table[0]) and _has_text(table[0]):
            return delimiter
    return ""


def is_header(header: list[str]) -> bool:
    """Return whether the cells of a row name a column of texts or titles, and further ones."""
    return len(header) > 1 and _has_text(header)


def _has_text(header: list[str]) -> bool:
    return bool({"text", "title"} & _places(header).keys())


def _places(header: list[str]) -> dict[str, int]:
    """Return the column of each field that the header names."""
    names = [_NAME.sub("_", cell.strip().strip("\ufeff\"'").lower()) for cell in header]
    found = {field: [names.index(name) for name in known if name in names] for field, known in COLUMNS.items()}
    return {field: columns[0] for field, columns in found.items() if columns}


def read(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each row, known by its PMID, PMC number, DOI, id, or else its line.

    Raises:
        DocumentUnreadable: the header names no column of texts or titles.
    """
    with unreadable_file():
        text, _ = read_decoded(path)
    delimiter = delimiter_of(text.split("\n", 20)[:20])
    if not delimiter:
        known = ", ".join((*COLUMNS["text"], "title"))
        raise DocumentUnreadable(f"{path}: no table with a header and rows: one of the columns {known} is needed")
    csv.field_size_limit(_MAX_CELL)
    rows = csv.reader(io.StringIO(text), delimiter=delimiter)
    header = next(rows)
    while True:
        line = rows.line_num + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:
            yield SkippedRecord(path.name, line, f"the row is no CSV: {error}")
            continue
        if cells is None:
            return
        if not any(map(str.strip, cells)):
            continue
        yield row_item(path, line, header, cells, options)


def row_item(path: Path, line: int, header: list[str], cells: list[str], options: ReadOptions) -> Item:
    """Return the document of a row under its header, known by its PMID, PMC number, DOI, id, or else its line."""
    if len(cells) > len(header):
        return SkippedRecord(path.name, line, f"{len(cells)} columns, {len(header)} expected")
    row = {field: cells[at].strip() for field, at in _places(header).items() if at < len(cells)}
    title, text = " ".join(row.get("title", "").split()), row.get("text", "")
    if not title and not text:
        return SkippedRecord(path.name, line, "neither title nor text")
    document_id, address = paper_ids(row.get("pmcid", ""), row.get("pmid", ""), row.get("doi", ""))
    url = row.get("url", "")
    written = row.get("authors", "")
    authors = written.split(";" if ";" in written else ",")
    document = Document(
        document_id=document_id or f"{path.stem}:{row.get('id') or line}",
        title=title,
        source="table",
        url=address or (url if url.startswith(("http://", "https://")) else ""),
        authors=tuple(dict.fromkeys(name.strip().rstrip(".") for name in authors if name.strip())),
        journal=row.get("journal", ""),
        date=first_date(row.get("date", "")),
        licence=row.get("licence", "") or options.licence,
        provenance=options.provenance or path.name,
        retrieved=options.retrieved,
    )
    found = TextBuilder()
    found.add(text)
    return found.reading(document, line)
