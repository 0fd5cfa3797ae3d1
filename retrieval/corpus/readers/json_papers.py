"""Read papers in JSON: CORD-19's parses, and the values of any JSON file, be it lines, one array or one object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from retrieval.corpus.items import NO_OPTIONS, Item, ReadOptions, SkippedRecord, TextBuilder, unreadable_file
from retrieval.errors import DocumentTooLarge, DocumentUnreadable
from retrieval.formats.json_stream import JsonStream
from retrieval.formats.sources import Source
from retrieval.formats.untrusted_input import JSON_TOO_DEEP, is_json_too_deep, whole_characters
from retrieval.passages import Document

MAX_PAPER: Final = 64 * 2**20
_PMC: Final = "PMC"


def json_values(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line, value) of a file of JSON: each element of an array, each line, or the file as one value.

    Raises:
        DocumentUnreadable: it is no JSON, or nested too deep.
        DocumentTooLarge: one value has more than 64 MiB.
    """
    source = Source(path, max_line=MAX_PAPER)
    if _begins_with(source, "["):
        yield from JsonStream(source, source.chunks(), max_value=MAX_PAPER).elements()
        return
    lines = source.lines()
    number, first = next(((number, line) for number, line in lines if line is None or line.strip()), (0, ""))
    if (value := _parsed(first or "")) is not None:
        yield number, value
        for number, line in lines:
            if line is None or line.strip():
                yield number, _parsed(line or "")
        return
    whole = _parsed(_whole(source))
    if whole is None:
        raise DocumentUnreadable(f"{path}: it is no JSON, or {JSON_TOO_DEEP}")
    yield 1, whole


def _begins_with(source: Source, sign: str) -> bool:
    head = next((chunk for chunk in source.chunks() if chunk.strip()), b"")
    return head.decode("utf-8-sig", "replace").lstrip().startswith(sign)


def _whole(source: Source) -> str:
    parts, size = [], 0
    for chunk in source.chunks():
        size += len(chunk)
        if size > MAX_PAPER:
            raise DocumentTooLarge(f"{source.path}: one value of JSON has more than {MAX_PAPER} bytes")
        parts.append(chunk)
    return b"".join(parts).decode("utf-8-sig", "replace")


def _parsed(text: str) -> Any:
    """Return the value, None for text that is no JSON or nested too deep."""
    try:
        value = json.loads(whole_characters(text))
    except (ValueError, RecursionError):
        return None
    return None if is_json_too_deep(value) else value


def strings(value: object) -> str:
    """Return a value that is text on one line, "" for any other."""
    return " ".join(value.split()) if isinstance(value, str) else ""


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[Mapping[str, Any]]:
    """Return the objects of a list."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def paper_ids(pmcid: str, pmid: str, doi: str) -> tuple[str, str]:
    """Return (document id, address) of a paper by the first of its numbers that there is, ("", "") for none."""
    number = pmcid.upper().removeprefix(_PMC)
    if number.isascii() and number.isdigit():
        return f"PMC:{int(number)}", f"https://pmc.ncbi.nlm.nih.gov/articles/PMC{int(number)}/"
    if pmid.isascii() and pmid.isdigit() and len(pmid) <= 9:
        return f"PMID:{int(pmid)}", f"https://pubmed.ncbi.nlm.nih.gov/{int(pmid)}/"
    return (f"DOI:{doi}", f"https://doi.org/{doi}") if doi else ("", "")


def read_cord19(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each paper, its abstract and body in their sections."""
    with unreadable_file():
        for line, value in json_values(path):
            yield _cord19_item(path.name, line, mapping(value), options)


def _cord19_item(file: str, line: int, paper: Mapping[str, Any], options: ReadOptions) -> Item:
    name = strings(paper.get("paper_id"))
    about = mapping(paper.get("metadata"))
    if not name:
        return SkippedRecord(file, line, "a paper of CORD-19 with a paper_id was expected")
    text = TextBuilder()
    for part, default in (("abstract", "Abstract"), ("body_text", "")):
        section, words = "", list[str]()
        for row in (*rows(paper.get(part)), None):
            heading = "" if row is None else strings(row.get("section")) or default
            if row is None or heading != section:
                text.add("\n".join(words), section)
                section, words = heading, []
            words += [] if row is None else [str(row.get("text") or "")]
    title = strings(about.get("title"))
    if not title and not len(text):
        return SkippedRecord(file, line, f"{name[:60]}: neither title nor text")
    pmcid = name if name.upper().startswith(_PMC) else ""
    document_id, address = paper_ids(pmcid, "", strings(about.get("doi")))
    authors = (_cord19_author(author) for author in rows(about.get("authors")))
    document = Document(
        document_id=document_id or f"CORD-19:{name}",
        title=title or name,
        source="cord-19",
        url=address,
        authors=tuple(dict.fromkeys(filter(None, authors))),
        licence=options.licence,
        provenance=options.provenance or file,
        retrieved=options.retrieved,
    )
    return text.reading(document, line)


def _cord19_author(author: Mapping[str, Any]) -> str:
    middle = author.get("middle")
    names = [strings(author.get("first")), *map(strings, middle if isinstance(middle, list) else [])]
    initials = "".join(name[0] for name in names if name)
    return " ".join(filter(None, (strings(author.get("last")), initials, strings(author.get("suffix")))))
