"""Read PubMed as one JSON object {pmid: {"d": "20071115", "t": title, "a": abstract, "m": MeSH}}.

The files beside NCBI's MedCPT embeddings have this form, with more than a gigabyte each.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from retrieval.corpus.errors import DocumentUnreadable
from retrieval.corpus.items import (
    NO_OPTIONS,
    Item,
    ReadOptions,
    SkippedRecord,
    TextBuilder,
    date_number,
    unreadable_file,
)
from retrieval.formats.sources import Source
from retrieval.passages import Document

_MAX_RECORD: Final = 2**20
_SPACE: Final = " \t\r\n"


def read(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each PMID.

    ``m`` is left out: MeSH headings are not words of the article.
    """
    with unreadable_file():
        for line, pmid, record in members(Source(path)):
            yield _item(path, line, (pmid, record), options)


def _item(path: Path, line: int, member: tuple[str, Any], options: ReadOptions) -> Item:
    pmid, record = member
    if not (pmid.isascii() and pmid.isdigit()) or not 0 < int(pmid) < 10**12:
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


def members(source: Source) -> Iterator[tuple[int, str, Any]]:
    """Yield (line, name, value) of the one object in the file, each as soon as it is complete."""
    return _Object(source).members()


class _Object:
    """Parse one JSON object incrementally.

    ``_text[_at:]`` was read but is not consumed yet.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pieces = codecs.iterdecode(source.chunks(), "utf-8-sig")
        self._decoder = json.JSONDecoder(strict=False)
        self._text = ""
        self._at = 0
        self._line = 1

    def members(self) -> Iterator[tuple[int, str, Any]]:
        self._expect("{")
        if self._next() == "}":
            self._pass(1)
        else:
            while True:
                self._next()
                line, name = self._line, self._value()
                if not isinstance(name, str):
                    raise self._error("a name in quotes was expected")
                self._expect(":")
                self._next()
                yield line, name, self._value()
                if self._next() == "}":
                    self._pass(1)
                    break
                self._expect(",")
        if self._next():
            raise self._error("something follows the end of the object")

    def _value(self) -> Any:
        """Return the next value.

        A value is complete only when something follows it, since a number could continue.
        """
        tried = -1
        while True:
            if len(self._text) - self._at > tried:
                tried = 2 * (len(self._text) - self._at)
                try:
                    value, end = self._decoder.raw_decode(self._text, self._at)
                except json.JSONDecodeError as error:
                    if len(self._text) - self._at > _MAX_RECORD:
                        raise self._error(f"no JSON: {error.msg}") from None
                except RecursionError:
                    raise self._error("values are nested too deep") from None
                else:
                    if end < len(self._text) or not self._more():
                        self._pass(end - self._at)
                        return value
                    tried = -1
                    continue
            if not self._more():
                raise self._error("the file is cut, or no JSON")

    def _expect(self, sign: str) -> None:
        found = self._next()
        if found != sign:
            raise self._error(f"{sign!r} was expected, not {found!r}" if found else "the file is cut")
        self._pass(1)

    def _next(self) -> str:
        """Move to the next character that is not white space and return it; "" at the end."""
        while True:
            rest = self._text[self._at : self._at + 4096]
            self._pass(len(rest) - len(rest.lstrip(_SPACE)))
            if self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
            elif not self._more():
                return ""

    def _pass(self, size: int) -> None:
        self._line += self._text.count("\n", self._at, self._at + size)
        self._at += size

    def _more(self) -> bool:
        try:
            piece = next(self._pieces, None)
        except UnicodeDecodeError as error:
            raise self._error("the text is not valid UTF-8") from error
        if piece is None:
            return False
        self._text = self._text[self._at :] + piece
        self._at = 0
        return True

    def _error(self, reason: str) -> DocumentUnreadable:
        return DocumentUnreadable(f"{self._source.path}: line {self._line}: {reason}")
