"""Read corpora in JSON: MedRAG's snippets, BEIR, CORD-19, and NCBI's PubMed beside its MedCPT embeddings.

MedRAG (https://huggingface.co/MedRAG) has JSON lines {id, title, content, contents}; PubMed's have a PMID, Wikipedia's
a wiki_id. NCBI's files have more than a gigabyte each: one object {pmid: {"d": "20071115", "t": title, "a": abstract,
"m": MeSH}}.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from retrieval.corpus.items import (
    NO_OPTIONS,
    Item,
    ReadOptions,
    SkippedRecord,
    TextBuilder,
    date_number,
    document_types,
    paper_ids,
    path_of,
    unreadable_file,
)
from retrieval.formats.json_stream import JsonStream
from retrieval.formats.json_values import json_values, mapping, rows, strings
from retrieval.formats.sources import Source
from retrieval.formats.tables import is_number
from retrieval.formats.untrusted_input import JSON_TOO_DEEP, is_json_too_deep, whole_characters
from retrieval.passages import Document

_ROW: Final = re.compile(r"(.+)_[0-9]+", re.ASCII)
_PUBMED_ID: Final = re.compile(r"PMID:([0-9]{1,9})", re.ASCII)
_MAX_LINE: Final = 4 * 2**20
# MedRAG's own snippets have some 1,000 characters, abstracts seldom more than these.
_MAX_SNIPPET: Final = 5000
_HEADINGS: Final = " -- "
_STRIPPED: Final = ".tx"
_MAX_PUBMED_RECORD: Final = 2**20


def read_medrag(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each line, its content as one passage where the corpus already split it.

    A PubMed line has the document id of its article. Content longer than any snippet is cut like that of any document.
    """
    for number, row in _rows_with(path, "id"):
        yield row if isinstance(row, SkippedRecord) else _snippet_item(path.name, number, row, options)


def read_beir(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each line of a corpus of BEIR: {"_id", "title", "text", "metadata"}."""
    for number, row in _rows_with(path, "_id"):
        yield row if isinstance(row, SkippedRecord) else _beir_item(path.name, number, row, options)


def _beir_item(file: str, number: int, row: dict[str, Any], options: ReadOptions) -> Item:
    title, content = row.get("title") or "", row.get("text") or ""
    if not isinstance(title, str) or not isinstance(content, str) or not (title.strip() or content.strip()):
        return SkippedRecord(file, number, f"{row['_id'][:60]}: neither title nor text")
    metadata = row.get("metadata")
    url = metadata.get("url") if isinstance(metadata, dict) else ""
    document = Document(
        document_id=f"BEIR:{row['_id'].strip()}",
        title=" ".join(title.split()),
        source="beir",
        url=url if isinstance(url, str) and url.startswith(("https://", "http://")) else "",
        licence=options.licence,
        provenance=options.provenance or file,
        retrieved=options.retrieved,
    )
    text = TextBuilder()
    text.add(content)
    return text.reading(document, number)


def _rows_with(path: Path, key: str) -> Iterator[tuple[int, dict[str, Any] | SkippedRecord]]:
    """Yield (number, object) of the lines that have an id under ``key``, and a reason for each that has not."""
    with unreadable_file():
        for number, line in Source(path, max_line=_MAX_LINE).lines():
            if line is None:
                yield number, SkippedRecord(path.name, number, "the line is not valid UTF-8")
            elif line.strip():
                yield number, _row(path.name, number, line, key)


def _row(file: str, number: int, line: str, key: str) -> dict[str, Any] | SkippedRecord:
    try:
        row = json.loads(whole_characters(line))
    except RecursionError:
        return SkippedRecord(file, number, JSON_TOO_DEEP)
    except ValueError:  # of the syntax, or a whole number of more digits than Python converts
        return SkippedRecord(file, number, "the line is no JSON")
    if is_json_too_deep(row):
        return SkippedRecord(file, number, JSON_TOO_DEEP)
    if not isinstance(row, dict) or not isinstance(row.get(key), str) or not row[key].strip():
        return SkippedRecord(file, number, f"an object with an {key} was expected")
    return row


def _snippet_item(file: str, number: int, row: dict[str, Any], options: ReadOptions) -> Item:
    title, content = (row.get("title") or "", row.get("content") or row.get("contents") or "")
    if not isinstance(title, str) or not isinstance(content, str) or not (title.strip() or content.strip()):
        return SkippedRecord(file, number, f"{row['id'][:60]}: neither title nor content")
    document, section = _snippet_document(row, " ".join(title.split()), options.provenance or file, options)
    text = TextBuilder()
    text.add(content, section)
    return text.reading(document, number, whole=len(content) <= _MAX_SNIPPET)


def _snippet_document(row: dict[str, Any], title: str, provenance: str, options: ReadOptions) -> tuple[Document, str]:
    name = row["id"].strip()
    types: tuple[str, ...] = ()
    section, source = "", "textbooks"
    document_id, url = f"MedRAG:{name}", ""
    if pmid := _pmid(row, name):
        document_id, url, source = f"PMID:{pmid}", f"https://pubmed.ncbi.nlm.nih.gov/{pmid}/", "pubmed"
    elif "wiki_id" in row or name.startswith("wiki"):
        source, types = "wikipedia", document_types(["encyclopedia"])
        page = str(row.get("wiki_id", ""))
        url = f"https://en.wikipedia.org/?curid={page}" if is_number(page) else ""
    elif name.startswith("article-"):
        source, types = "statpearls", document_types(["book chapter"])
        title, *headings = title.split(_HEADINGS)
        section = path_of(headings)
    else:
        title, types = whole_title(name, title), document_types(["textbook"])
    document = Document(
        document_id=document_id,
        title=title,
        source=source,
        url=url,
        types=types,
        licence=options.licence,
        provenance=provenance,
        retrieved=options.retrieved,
    )
    return document, section


def _pmid(row: dict[str, Any], name: str) -> int:
    """Return the PMID, 0 where there is none.

    The published files have a field; those that the corpus' own script writes, an id.
    """
    number = str(row.get("PMID", ""))
    found = _PUBMED_ID.fullmatch(name) or _PUBMED_ID.fullmatch(f"PMID:{number}")
    return int(found[1]) if found else 0


def whole_title(row_id: str, title: str) -> str:
    """Return a textbook's title as its file was named.

    The published titles were made with ``strip(".txt")``, which also removes the last letters of "Lippincott". Only a
    title that results from the id's own name in just that way is corrected.
    """
    found = _ROW.fullmatch(row_id)
    return found[1] if found and title != found[1] and f"{found[1]}.txt".strip(_STRIPPED) == title else title


def read_pubmed_json(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each PMID.

    ``m`` is left out: MeSH headings are not words of the article.
    """
    with unreadable_file():
        source = Source(path)
        for line, pmid, record in JsonStream(source, source.chunks(), max_value=_MAX_PUBMED_RECORD).members():
            yield _pubmed_item(path, line, (pmid, record), options)


def _pubmed_item(path: Path, line: int, member: tuple[str, Any], options: ReadOptions) -> Item:
    pmid, record = member
    if not is_number(pmid, 12) or not int(pmid):
        return SkippedRecord(path.name, line, f"{pmid[:40]!r} is no PMID")
    if not isinstance(record, dict):
        return SkippedRecord(path.name, line, f"PMID {pmid}: an object with d, t, a and m was expected")
    day, title, abstract = (record.get(name) or "" for name in "dta")
    if not all(isinstance(value, str) for value in (day, title, abstract)) or not (title.strip() or abstract.strip()):
        return SkippedRecord(path.name, line, f"PMID {pmid}: neither title nor abstract")
    number = int(pmid)
    document = Document(
        document_id=f"PMID:{number}",
        title=" ".join(title.split()),
        source="pubmed",
        url=f"https://pubmed.ncbi.nlm.nih.gov/{number}/",
        date=date_number(day),
        licence=options.licence,
        provenance=options.provenance or path.name,
        retrieved=options.retrieved,
    )
    text = TextBuilder()
    text.add(abstract.strip())
    return text.reading(document, line)


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
    pmcid = name if name.upper().startswith("PMC") else ""
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
