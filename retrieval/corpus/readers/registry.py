"""Register all readers by name, and guess from a file's content which of them it needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final

from retrieval.corpus.items import NO_OPTIONS, Item, Reader, ReadOptions, unreadable_file
from retrieval.corpus.readers import json_corpora, ncbi_xml, pdf, plain
from retrieval.corpus.readers.plain import UndecodedText, decode_text
from retrieval.errors import DocumentUnreadable, NamespaceInvalid
from retrieval.formats.sources import Source, is_tar, tar_members
from retrieval.formats.untrusted_input import DeclaredXml, refuse_declarations


def _without_declarations(read: Reader) -> Reader:
    """Let a reader take no XML with declarations of its own, not even as plain text."""

    def guarded(path: Path, options: ReadOptions = NO_OPTIONS, /) -> Iterator[Item]:
        with unreadable_file():
            _refuse_declarations(Source(path))
        yield from read(path, options)

    return guarded


def _refuse_declarations(source: Source) -> None:
    try:
        refuse_declarations(source.chunks())
    except DeclaredXml as error:
        raise DocumentUnreadable(f"{source.path}: {error}") from None


READERS: Final[Mapping[str, Reader]] = MappingProxyType(
    {
        name: _without_declarations(read)
        for name, read in (
            ("pubmed", ncbi_xml.read_pubmed),
            ("pubmed-json", json_corpora.read_pubmed_json),
            ("pmc", ncbi_xml.read_pmc),
            ("medrag", json_corpora.read_medrag),
            ("statpearls", ncbi_xml.read_statpearls),
            ("pdf", pdf.read),
            ("text", plain.read),
        )
    }
)
_ROOTS: Final = {
    "PubmedArticleSet": "pubmed",
    "pmc-articleset": "pmc",
    "article": "pmc",
    "book-part-wrapper": "statpearls",
    "book-part": "statpearls",
}
_HEAD: Final = 64 * 1024
_ASIDE: Final = re.compile(r"\s*(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*>)", re.DOTALL)
_ROOT: Final = re.compile(r"\s*<([A-Za-z_][\w.-]*)[\s/>]")
_PUBMED_JSON: Final = re.compile(r'\s*\{\s*"[0-9]{1,9}"\s*:\s*\{')
_PDF: Final = b"%PDF-"
_PDF_WITHIN: Final = 1024


def reader(name: str) -> Reader:
    """Return the reader of this name.

    Raises:
        NamespaceInvalid: no reader has this name.
    """
    found = READERS.get(name)
    if found is None:
        raise NamespaceInvalid(f"there is no reader {name[:40]!r}; there are {', '.join(READERS)}", param="reader")
    return found


def guess_reader(path: Path) -> str:
    """Return the name of the reader for a file, by its first bytes (decompressed where it is gzip).

    The file's own name matters only to reject a .pdf that is not a PDF.

    Raises:
        DocumentUnreadable: it cannot be opened, is empty, or of an unknown format.
    """
    reason = ""
    with unreadable_file():
        source = Source(path)
        _refuse_declarations(source)
        head = _head(source.chunks())
        if not head.strip():
            raise DocumentUnreadable(f"{path}: the file is empty: choose one that has text")
        if _PDF in head[:_PDF_WITHIN]:
            return "pdf"
        if path.suffix.lower() == ".pdf":
            raise DocumentUnreadable(f"{path}: is called a PDF and is none; name the reader if it is something else")
        try:
            kind = _of_archive(source) if is_tar(source) else _of_text(head)
        except UndecodedText as error:
            kind, reason = "", f"; it is no text either: {error}"
    if not kind:
        raise DocumentUnreadable(
            f"{path}: none of the forms {', '.join(READERS)}{reason}; name the reader if it is one"
        )
    return kind


def _head(chunks: Iterator[bytes]) -> bytes:
    return b"".join(islice(chunks, 1))[:_HEAD]


def _of_archive(source: Source) -> str:
    """Guess the reader by the first XML member."""
    for member in tar_members(source):
        if member.name.endswith((".xml", ".nxml")):
            return _of_text(_head(member.content))
    return ""


def _of_text(head: bytes) -> str:
    """Guess the reader by the beginning of a file.

    Raises:
        UndecodedText: it is not a text in a known encoding.
    """
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The head may end within a character.
        text = head[: error.start].decode("utf-8-sig") if error.start >= len(head) - 4 else decode_text(head)[0]
    if "\0" in text:
        text = decode_text(head)[0]
    if root := _root(text):
        return _ROOTS.get(root, "")
    if _PUBMED_JSON.match(text):
        return "pubmed-json"
    return "medrag" if _is_snippet(text.lstrip().partition("\n")[0]) else "text"


def _root(text: str) -> str:
    """Return the name of the root element, or "" for text that is not XML."""
    at = 0
    while found := _ASIDE.match(text, at):
        at = found.end()
    root = _ROOT.match(text, at)
    return root[1] if root and (at or root[1] in _ROOTS) else ""


def _is_snippet(line: str) -> bool:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return line.startswith('{"id": ') and '"title": ' in line  # the line is longer than the head that was read
    return isinstance(row, dict) and "id" in row and ("content" in row or "contents" in row)
