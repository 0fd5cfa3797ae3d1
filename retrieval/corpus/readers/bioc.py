"""Read BioC, in JSON and in XML: collections of documents in passages, as PMC, PubTator and others publish them.

BioC's DTD is at https://bioc.sourceforge.net; NCBI's infons name section, type, authors and numbers of a paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element

from retrieval.corpus.items import (
    NO_OPTIONS,
    Item,
    ReadOptions,
    SkippedRecord,
    TextBuilder,
    date_number,
    paper_ids,
    path_of,
    unreadable_file,
)
from retrieval.formats.items import MalformedRecord
from retrieval.formats.json_values import MAX_PAPER, json_values, mapping, rows, strings
from retrieval.formats.notation import text_of
from retrieval.formats.sources import Source
from retrieval.formats.xml_records import Layout, parse, records
from retrieval.passages import Document

_LAYOUT: Final = Layout(
    "collection", frozenset(("source", "date", "key", "version", "infon", "document")), max_record=MAX_PAPER
)
_LEFT_OUT: Final = frozenset(("REF", "AUTH_CONT", "COMP_INT"))
_TITLES: Final = frozenset(("front", "title"))
_NAME_PART: Final = re.compile(r"(surname|given-names):([^;]*)")
_DIGITS: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


def read(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each of the collection's; references and statements of authors are left out."""
    with unreadable_file():
        source = Source(path)
        head = next(source.chunks(), b"").lstrip(b"\xef\xbb\xbf \t\r\n")
        found = _xml_documents(source, path.name) if head.startswith(b"<") else _json_documents(path)
        for line, document in found:
            yield document if isinstance(document, SkippedRecord) else _item(path.name, line, document, options)


def _json_documents(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for line, value in json_values(path):
        collection = mapping(value)
        documents = rows(collection.get("documents")) or rows(collection.get("PubTator3"))
        for document in documents or [collection]:
            yield line, document


def _xml_documents(source: Source, file: str) -> Iterator[tuple[int, Mapping[str, Any] | SkippedRecord]]:
    for record in records(source, source.chunks(), _LAYOUT):
        if record.name == "document" or record.trouble:
            try:
                element, _ = parse(record)
                yield record.line, _as_json(element)
            except MalformedRecord as error:
                yield record.line, SkippedRecord(file, record.line, str(error)[:200])


def _as_json(document: Element) -> dict[str, Any]:
    passages = [
        {
            "infons": _infons(passage),
            "text": text_of(passage.find("text")),
            "sentences": [{"text": text_of(sentence.find("text"))} for sentence in passage.findall("sentence")],
        }
        for passage in document.findall("passage")
    ]
    return {"id": text_of(document.find("id")), "infons": _infons(document), "passages": passages}


def _infons(element: Element) -> dict[str, str]:
    return {infon.get("key", ""): text_of(infon) for infon in element.findall("infon")}


def _item(file: str, line: int, document: Mapping[str, Any], options: ReadOptions) -> Item:
    name, passages = strings(str(document.get("id") or "")), rows(document.get("passages"))
    if not name or not passages:
        return SkippedRecord(file, line, "a document of BioC with an id and passages was expected")
    infons = [mapping(document.get("infons")), *(mapping(passage.get("infons")) for passage in passages)]
    text = TextBuilder()
    title = _add_passages(text, passages)
    if not title and not len(text):
        return SkippedRecord(file, line, f"{name[:60]}: no text")
    about = {key: strings(str(value)) for infon in reversed(infons) for key, value in infon.items()}
    pmcid = about.get("article-id_pmc", "") or (name if name.upper().startswith("PMC") else "")
    pmid = about.get("article-id_pmid", "") or (name if _DIGITS.fullmatch(name) else "")
    document_id, address = paper_ids(pmcid, pmid, about.get("article-id_doi", ""))
    found = Document(
        document_id=document_id or f"BioC:{name}",
        title=title or name,
        source="bioc",
        url=address,
        authors=_authors(about),
        journal=about.get("journal-title", "") or about.get("journal", ""),
        date=date_number(about.get("year", "")),
        licence=about.get("license", "") or options.licence,
        provenance=options.provenance or file,
        retrieved=options.retrieved,
        record=f"PMID:{pmid}" if document_id.startswith("PMC:") and _DIGITS.fullmatch(pmid) else "",
    )
    return text.reading(found, line)


def _add_passages(text: TextBuilder, passages: list[Mapping[str, Any]]) -> str:
    """Add the passages under their headings, and return the title."""
    title, section, headings = "", "", dict[int, str]()
    for passage in passages:
        infons, words = mapping(passage.get("infons")), _words(passage)
        kind = strings(str(infons.get("section_type") or "")).upper()
        form = strings(str(infons.get("type") or "")).lower()
        if kind in _LEFT_OUT or form == "ref":
            continue
        if not title and (kind == "TITLE" or form in _TITLES):
            title = " ".join(words.split())
        elif form.startswith("title"):
            level = int(found[0]) if (found := _DIGITS.search(form)) else 1
            headings = {at: heading for at, heading in headings.items() if at < level} | {level: strings(words)}
            section = path_of(headings.values())
        else:
            here = section if headings else kind.capitalize()
            text.add(words, "Abstract" if kind == "ABSTRACT" else here)
    return title


def _words(passage: Mapping[str, Any]) -> str:
    text = passage.get("text")
    if isinstance(text, str) and text.strip():
        return text.strip()
    return " ".join(filter(None, (strings(sentence.get("text")) for sentence in rows(passage.get("sentences")))))


def _authors(about: Mapping[str, str]) -> tuple[str, ...]:
    """Return the authors of NCBI's infons: name_0 is "surname:Doe;given-names:Jane"."""
    names = []
    for number in range(len(about)):
        written = about.get(f"name_{number}")
        if written is None:
            break
        parts = {key: value.strip() for key, value in _NAME_PART.findall(written)}
        initials = "".join(word[0] for word in parts.get("given-names", "").split())
        names.append(" ".join(filter(None, (parts.get("surname", ""), initials))) or written)
    if not names and (written := about.get("authors", "")):
        names = [name.strip() for name in written.split(",")]
    return tuple(dict.fromkeys(filter(None, names)))
