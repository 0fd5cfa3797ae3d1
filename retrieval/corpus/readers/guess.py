"""Guess from a file's content which reader it needs, and refuse what none reads, with the list of those forms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from retrieval.corpus.items import unreadable_file
from retrieval.corpus.readers.labels import dailymed
from retrieval.corpus.readers.office.package import ARCHIVE, package_kind
from retrieval.corpus.readers.plain import UndecodedText, decode_text
from retrieval.corpus.readers.tables import COLUMNS, delimiter_of
from retrieval.errors import DocumentUnreadable
from retrieval.formats.sources import Source, is_tar, tar_members

FORMS: Final = {
    "pubmed": "PubMed XML",
    "pubmed-json": "PubMed as JSON",
    "nbib": "PubMed's .nbib",
    "pmc": "JATS (PMC, publishers)",
    "statpearls": "Bookshelf XML",
    "bioc": "BioC (JSON, XML)",
    "dailymed": "DailyMed's labels (SPL, also as .zip)",
    "medrag": "MedRAG's JSON lines",
    "beir": "BEIR's JSON lines",
    "cord19": "CORD-19 JSON",
    "table": "CSV or TSV with named columns",
    "ris": "RIS",
    "bib": "BibTeX (.bib)",
    "html": "HTML",
    "docx": "Word (.docx)",
    "pptx": "PowerPoint (.pptx)",
    "xlsx": "Excel (.xlsx)",
    "pdf": "PDF",
    "text": "Markdown and plain text",
    ARCHIVE: "a zip archive of such files",
}
_ROOTS: Final = {
    "PubmedArticleSet": "pubmed",
    "pmc-articleset": "pmc",
    "article": "pmc",
    "book-part-wrapper": "statpearls",
    "book-part": "statpearls",
    "collection": "bioc",
}
_HEAD: Final = 64 * 1024
_ASIDE: Final = re.compile(r"\s*(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*>)", re.DOTALL | re.IGNORECASE)
_ROOT: Final = re.compile(r"\s*<([A-Za-z_][\w.-]*)[\s/>]")
_HTML: Final = re.compile(r"\s*(?:<!DOCTYPE\s+html\b|<html[\s>]|<head[\s>]|<body[\s>])", re.IGNORECASE)
_HTML_SUFFIXES: Final = (".html", ".htm", ".xhtml")
_TABLE_SUFFIXES: Final = (".csv", ".tsv", ".tab")
_PUBMED_JSON: Final = re.compile(r'\s*\{\s*"[0-9]{1,9}"\s*:\s*\{')
_JSON: Final = re.compile(
    r'\s*(?:\{\s*(?:"(?:[^"\\]|\\.)*"\s*:|\})|\[\s*(?:[\[{]\s*["\[{\]}]|"(?:[^"\\]|\\.)*"\s*[,\]]|\]))'
)
_NBIB: Final = re.compile(r"\s*PMID- ?[0-9]")
_RIS: Final = re.compile(r"\s*TY  ?- ?[A-Z]{3,6}\s*\n[A-Z][A-Z0-9]  ?-")
_BIB: Final = re.compile(r"\s*@[A-Za-z]+\s*\{[^\s,{}=]+,\s*[A-Za-z_-]+\s*=")
_PDF: Final = b"%PDF-"
_PDF_WITHIN: Final = 1024
_ZIP: Final = b"PK\x03\x04"
_PICTURE: Final = "is a picture: save it as a PDF, whose characters are recognised on request (OCR)"
# How files begin that people have beside those that are read, with the remedy.
_OTHERS: Final = (
    (b"\xd0\xcf\x11\xe0", "is of an Office before 2007: save it as .docx, .pptx or .xlsx"),
    (b"\x89PNG", _PICTURE),
    (b"\xff\xd8\xff", _PICTURE),
    (b"II*\0", _PICTURE),
)


def guess_kind(path: Path) -> str:
    """Return the name of the reader for a file, by its first bytes (decompressed where it is gzip).

    The file's own name matters only to reject a .pdf that is not a PDF, and to tell HTML and tables from text.

    Raises:
        DocumentUnreadable: it cannot be opened, is empty, or of an unknown format.
    """
    with unreadable_file():
        source = Source(path)
        head = _head(source.chunks())
        if not head.strip():
            raise DocumentUnreadable(f"{path}: the file is empty: choose one that has text")
        if head.startswith(_ZIP):  # a PDF may stand within, as it is
            if kind := package_kind(path):
                return "dailymed" if kind == ARCHIVE and dailymed.holds_labels(path) else kind
            raise _refusal(path, "a damaged zip file, or one of another program: save it as PDF, Word or Excel")
        if _PDF in head[:_PDF_WITHIN]:
            return "pdf"
        if remedy := next((remedy for begin, remedy in _OTHERS if head.startswith(begin)), ""):
            raise DocumentUnreadable(f"{path}: the file {remedy}")
        if path.suffix.lower() == ".pdf":
            raise DocumentUnreadable(f"{path}: is called a PDF and is none; name the reader if it is something else")
        if is_tar(source):
            return _of_archive(source)
    try:
        return _of_text(head, path)
    except UndecodedText as error:
        raise _refusal(path, f"no text: {error}") from None


def _refusal(path: Path, what: str) -> DocumentUnreadable:
    forms = "; ".join(FORMS.values())
    return DocumentUnreadable(f"{path}: {what}. The forms that are read: {forms}. Name the reader if it is one")


def _head(chunks: Iterator[bytes]) -> bytes:
    return b"".join(islice(chunks, 1))[:_HEAD]


def _of_archive(source: Source) -> str:
    """Guess the reader by the first XML member."""
    for member in tar_members(source):
        if member.name.endswith((".xml", ".nxml")):
            return _of_text(_head(member.content), source.path)
    raise _refusal(source.path, "a tar archive without .xml or .nxml files")


def _of_text(head: bytes, path: Path) -> str:
    """Guess the reader by the beginning of a file.

    Raises:
        UndecodedText: it is not a text in a known encoding.
        DocumentUnreadable: it has a form that no reader takes.
    """
    text = _decoded(head)
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    root = _root(text)
    if root not in _ROOTS and (_HTML.match(text) or suffix in _HTML_SUFFIXES or root.lower() == "html"):
        return "html"
    if root:
        if root in _ROOTS:
            return _ROOTS[root]
        if root == dailymed.ROOT and dailymed.NAMESPACE in text:
            return "dailymed"
        raise _refusal(path, f"XML of an unknown kind (<{root[:40]}>)")
    if _NBIB.match(text):
        return "nbib"
    if _RIS.match(text):
        return "ris"
    if suffix == ".bib" or _BIB.match(text):
        return "bib"
    if kind := _of_json(text):
        return kind
    if _JSON.match(text) and _is_json(text):
        raise _refusal(path, "JSON of an unknown kind")
    if delimiter_of(text.split("\n", 20)[: 20 if len(head) == _HEAD else None]):
        return "table"
    if suffix in _TABLE_SUFFIXES:
        raise _refusal(path, f"a table needs a header with one of the columns {', '.join(COLUMNS['text'])}, title")
    return "text"


def _decoded(head: bytes) -> str:
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The head may end within a character.
        text = head[: error.start].decode("utf-8-sig") if error.start >= len(head) - 4 else decode_text(head)[0]
    return decode_text(head)[0] if "\0" in text else text


def _root(text: str) -> str:
    """Return the name of the root element, or "" for text that is not XML."""
    at = 0
    while found := _ASIDE.match(text, at):
        at = found.end()
    root = _ROOT.match(text, at)
    return root[1] if root and (at or root[1] in _ROOTS or not _is_html_tag(root[1])) else ""


def _is_html_tag(name: str) -> bool:
    """Return whether a text may begin with this tag and be Markdown."""
    from lxml.html import defs

    return name.lower() in defs.tags


def _of_json(text: str) -> str:
    """Return the reader of a JSON file by what its first value holds, "" for none."""
    if not _JSON.match(text):
        return ""
    if _PUBMED_JSON.match(text):
        return "pubmed-json"
    names = _names(text)
    if {"documents", "PubTator3"} & names or {"id", "passages"} <= names:
        return "bioc"
    if "paper_id" in names and {"metadata", "abstract", "body_text"} & names:
        return "cord19"
    if "_id" in names and "text" in names:
        return "beir"
    return "medrag" if "id" in names and {"content", "contents"} & names else ""


def _names(text: str) -> set[str]:
    """Return the names in the first object of a JSON text, as far as the head that was read shows them."""
    start = text.lstrip().lstrip("[ \t\r\n")
    try:
        value: Any = json.JSONDecoder().raw_decode(start)[0]
    except (ValueError, RecursionError):
        return _names_of_cut(start)
    return set(value) if isinstance(value, dict) else set()


_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')


def _names_of_cut(text: str) -> set[str]:
    """Return the names of the first object of a text that ends within it."""
    names: set[str] = set()
    depth, at = 0, 0
    while at < len(text):
        if text[at] == '"':
            found = _STRING.match(text, at)
            if found is None:
                break
            at = found.end()
            if depth == 1 and text[at:].lstrip()[:1] == ":":
                names.add(found[1])
            continue
        depth += (text[at] in "{[") - (text[at] in "}]")
        at += 1
    return names


def _is_json(text: str) -> bool:
    """Return whether a text, as far as it was read, is JSON: whole, or line by line, or cut off."""
    if len(text) >= _HEAD - 4:
        return True
    for part in (text, text.lstrip().partition("\n")[0]):
        try:
            json.loads(part)
        except (ValueError, RecursionError):
            continue
        return True
    return False
