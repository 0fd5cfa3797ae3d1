"""Read chapters of NCBI's Bookshelf in BITS XML (.nxml), StatPearls above all: one file, or a tar(.gz) of them.

StatPearls may be fetched from NCBI's Bookshelf (NBK430685) but not redistributed, so a site reads its own copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element

from retrieval.corpus.items import (
    NO_OPTIONS,
    Item,
    ReadOptions,
    SkippedRecord,
    TextBuilder,
    date_number,
    document_types,
    unreadable_file,
)
from retrieval.corpus.readers.pmc import add_sections, drop_raised_citations, licence_of
from retrieval.errors import ImportFileError
from retrieval.formats.items import MalformedRecord, date_of
from retrieval.formats.pmc_jats import plain_text
from retrieval.formats.sources import Source, is_tar, tar_members
from retrieval.formats.xml_records import Layout, RawRecord, parse, records, text_of
from retrieval.passages import Document

_MAX_RECORD: Final = 64 * 2**20
# A chapter's file is a wrapper around it, or the chapter alone; either is one record.
_LAYOUTS: Final = tuple(
    Layout("", frozenset((name,)), alone=name, max_record=_MAX_RECORD) for name in ("book-part-wrapper", "book-part")
)
_SUFFIXES: Final = (".nxml", ".xml")
_NUMBER: Final = re.compile(r"(?:article-|NBK)([0-9]+)", re.ASCII)


def read(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each chapter; in sections, StatPearls' bold paragraphs become headings."""
    with unreadable_file():
        source = Source(path)
        if not is_tar(source):
            yield _item(_record(source, b"".join(_bounded(source.chunks()))), (path.name, path.stem, 0), options)
            return
        found = False
        for member in tar_members(source):
            if not member.name.endswith(_SUFFIXES):
                continue
            found = True
            member_position = (f"{path.name}/{member.name}", member.name.rpartition(".")[0], member.number)
            try:
                yield _item(_record(source, b"".join(_bounded(member.content))), member_position, options)
            except ImportFileError as error:
                yield SkippedRecord(member_position[0], member.number, error.reason)
        if not found:
            raise source.error("the archive holds no .nxml or .xml file")


def _bounded(chunks: Iterator[bytes]) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > _MAX_RECORD:
            return
        yield chunk


def _record(source: Source, data: bytes) -> RawRecord:
    """Return the record of the chapter.

    Raises:
        ImportFileError: the text is not a chapter, or is truncated.
    """
    layout = _LAYOUTS[0] if b"<book-part-wrapper" in data else _LAYOUTS[1]
    (record,) = records(source, iter([data]), layout)
    return record


def _item(record: RawRecord, member_position: tuple[str, str, int], options: ReadOptions) -> Item:
    file, stem, line = member_position
    try:
        root, _ = parse(record)
        part = root.find(".//{*}book-part") if root.tag.endswith("wrapper") else root
        meta = None if part is None else part.find("{*}book-part-meta")
        body = None if part is None else part.find("{*}body")
        if part is None or meta is None or body is None:
            raise MalformedRecord("no chapter with book-part-meta and body within")
        title = " ".join(plain_text(meta.find("{*}title-group/{*}title")).split())
        if not title:
            raise MalformedRecord("the chapter has no title")
        document = _document(root, part, (title, stem), options)
        drop_raised_citations(body)
        text = TextBuilder()
        add_sections(text, body, bold_headings=True)
    except MalformedRecord as error:
        return SkippedRecord(file, line, str(error)[:200])
    return text.reading(document, line)


def _document(root: Element, part: Element, names: tuple[str, str], options: ReadOptions) -> Document:
    title, stem = names
    meta, book = part.find("{*}book-part-meta"), root.find(".//{*}book-meta")
    ids = [text_of(found) for found in part.findall("{*}book-part-meta/{*}book-part-id")]
    number = _NUMBER.search(" ".join([*ids, part.get("id", ""), stem]))
    nbk = next((value for value in ids if value.startswith("NBK")), "")
    dates = [] if meta is None else [*meta.findall(".//{*}date"), *meta.findall("{*}pub-date")]
    return Document(
        document_id=f"NBK:{nbk[3:]}" if nbk else f"Bookshelf:{number[0] if number else stem}",
        title=title,
        source="statpearls" if stem.startswith("article-") else "bookshelf",
        url=f"https://www.ncbi.nlm.nih.gov/books/{nbk}/" if nbk else "",
        authors=_authors(part),
        journal="" if book is None else text_of(book.find("{*}book-title-group/{*}book-title")),
        date=date_number(max(map(date_of, dates), default="")),
        types=document_types(["book chapter"]),
        licence=licence_of(meta) or licence_of(book) or options.licence,
        provenance=options.provenance or stem,
        retrieved=options.retrieved,
    )


def _authors(part: Element) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for name in part.findall("{*}book-part-meta/{*}contrib-group/{*}contrib/{*}name"):
        initials = "".join(word[0] for word in text_of(name.find("{*}given-names")).split())
        found[" ".join(filter(None, (text_of(name.find("{*}surname")), initials)))] = None
    found.pop("", None)
    return tuple(found)
