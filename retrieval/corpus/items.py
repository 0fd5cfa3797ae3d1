"""Define what readers yield: documents with their text and its parts, skipped records, withdrawals."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Protocol

from retrieval.errors import DocumentUnreadable, ImportFileError
from retrieval.formats.tables import is_number
from retrieval.passages import Document
from retrieval.storage.files import digest_file

RETRACTED: Final = "retracted publication"
# Current or shorter names; PubMed has used both for retraction notices.
_SAME: Final = {
    "retraction of publication": "retraction notice",
    "research-article": "journal article",
    "review-article": "review",
    "systematic-review": "systematic review",
    "case-report": "case reports",
    "correction": "published erratum",
    "retraction": "retraction notice",
    "expression-of-concern": "expression of concern",
    "article-commentary": "comment",
}
# Special types and the general ones that they imply (publication types in MeSH, branch V03).
_KINDS: Final = {
    "randomized controlled trial": ("clinical trial",),
    "controlled clinical trial": ("clinical trial",),
    "pragmatic clinical trial": ("clinical trial",),
    "practice guideline": ("guideline",),
}


def document_types(names: Iterable[str], *, retracted: bool = False) -> tuple[str, ...]:
    """Return normalized types, each once, in the order given.

    Types are in lower case; a general type follows the special one that implies it. ``retracted``: a notice reports the
    retraction, whether or not the record's types do.
    """
    found: dict[str, None] = {}
    for written in names:
        name = " ".join(written.lower().split())
        if not name:
            continue
        name = _SAME.get(name, name)
        found[name] = None
        phase = ("clinical trial",) if name.startswith("clinical trial, phase") else ()
        found |= dict.fromkeys((*_KINDS.get(name, ()), *phase))
    if retracted:
        found[RETRACTED] = None
    return tuple(found)


# Names of languages as tesseract has them, joined by +; none for no recognition of characters.
OCR_LANGUAGES: Final = re.compile(r"(?:[A-Za-z_]{3,20}(?:\+[A-Za-z_]{3,20}){0,4})?", re.ASCII)
SECTION_SEPARATOR: Final = " > "
_BETWEEN: Final = "\n\n"
# A lone surrogate is not a character, and SQLite ends a text at a NUL.
_NOT_TEXT: Final = re.compile("[\x00\ud800-\udfff]")
_WRITTEN_DATE: Final = re.compile(r"([0-9]{4})(?:[/-]([0-9]{1,2}))?(?:[/-]([0-9]{1,2}))?(?![0-9])", re.ASCII)
_DATE: Final = re.compile(r"([0-9]{4})(?:-?([0-9]{2})(?:-?([0-9]{2}))?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """Mark a part of a text: characters ``start`` to ``end``, of one section and page (see ``Passage``)."""

    start: int
    end: int
    section: str = ""
    page: int = 0


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """Hold one document as read.

    ``spans`` are ascending and do not overlap; ``line`` is where it begins, 0 if unknown. ``whole``: the spans are
    passages as they are, because the source already split the text.
    """

    document: Document
    text: str
    spans: tuple[Span, ...]
    line: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Report that the source withdrew a document, which may not be stored."""

    document_id: str


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """Report a skipped record: in ``file``, at ``line``, for ``reason``.

    Lines are 1-based; in a tar, ``line`` is the number of the member.
    """

    file: str
    line: int
    reason: str

    def __post_init__(self) -> None:
        # A name of a file that is not UTF-8, or the quoted text, can have halves of characters.
        for name in ("file", "reason"):
            object.__setattr__(self, name, clean(getattr(self, name)))


Item = ParsedDocument | Withdrawn | SkippedRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PdfLimits:
    """Limit one PDF: seconds, address space of the child process in bytes, pages, characters of text."""

    seconds: float = 120.0
    memory_bytes: int = 1024 * 2**20
    pages: int = 5_000
    chars: int = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """Limit the process that reads one file.

    ``seconds`` is the longest wait for the next document, and the processor time of the whole file with
    ``seconds_per_mib`` for each MiB on the disk; time in which nobody takes its documents is not counted.
    ``memory_bytes`` bounds its address space.
    """

    seconds: float = 120.0
    seconds_per_mib: float = 10.0
    memory_bytes: int = 2048 * 2**20

    def processor_seconds(self, size: int) -> int:
        """Return the processor time for a file of ``size`` bytes, at least a second."""
        return max(1, int(self.seconds + self.seconds_per_mib * size / 2**20))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Configure a reader.

    ``kind``: the reader's name, "" to guess it. ``retrieved``: the day (yyyy-mm-dd) and ``licence`` for documents that
    name none; ``provenance`` replaces the path. ``ocr``: tesseract's names of the languages ("eng+deu") in which
    characters on pictures of pages are recognized, "" for not.
    """

    kind: str = ""
    ocr: str = ""
    retrieved: str = ""
    licence: str = ""
    provenance: str = ""
    pdf: PdfLimits = field(default_factory=PdfLimits)
    limits: FileLimits = field(default_factory=FileLimits)


NO_OPTIONS: Final = ReadOptions()


class Reader(Protocol):
    """Read one file from its beginning; memory is bounded by the largest record, not by the file.

    Raises:
        DocumentUnreadable: the file is of another kind, truncated, damaged or locked; items before that are sound; a
            limit of time or memory was reached.
    """

    def __call__(self, path: Path, options: ReadOptions = ..., /) -> Iterator[Item]: ...


class TextBuilder:
    """Join the parts of a document to one text, a blank line between them, and record their spans."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._spans: list[Span] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, text: str, section: str = "", page: int = 0) -> None:
        """Append a part, unless it is blank."""
        text = clean(text)
        if not text.strip():
            return
        if self._parts:
            self._parts.append(_BETWEEN)
            self._size += len(_BETWEEN)
        self._parts.append(text)
        self._spans.append(Span(self._size, self._size + len(text), clean(section), page))
        self._size += len(text)

    def reading(self, document: Document, line: int = 0, *, whole: bool = False) -> ParsedDocument:
        """Return the document with the joined text; its title is the text where no part was added."""
        document = _clean_document(document)
        if not self._parts:
            self.add(document.title)
        return ParsedDocument(document, "".join(self._parts), tuple(self._spans), line, whole)


def clean(text: str) -> str:
    """Replace NULs and lone surrogates with U+FFFD."""
    return _NOT_TEXT.sub("\ufffd", text) if _NOT_TEXT.search(text) else text


def _clean_document(document: Document) -> Document:
    changed: dict[str, Any] = {}
    for one in fields(document):
        value = getattr(document, one.name)
        if isinstance(value, str) and (text := clean(value)) != value:
            changed[one.name] = text
        elif isinstance(value, tuple) and (texts := tuple(map(clean, value))) != value:
            changed[one.name] = texts
    return replace(document, **changed) if changed else document


def path_of(headings: Iterable[str]) -> str:
    return SECTION_SEPARATOR.join(filter(None, headings))


def date_number(text: str) -> int:
    """Return a date as yyyymmdd with zeros where unknown, or 0 for any other text.

    Accepted are "2003-05-02", "2003-05", "2003" and "20030502".
    """
    found = _DATE.fullmatch(text.strip())
    return int(found[1]) * 10_000 + int(found[2] or 0) * 100 + int(found[3] or 0) if found else 0


def first_date(text: str) -> int:
    """Return the date with which a text begins as yyyymmdd: "2020/5/1 more", "2020-05", "2020"; 0 for none."""
    found = _WRITTEN_DATE.match(text.strip())
    if found is None:
        return 0
    return date_number("-".join([found[1], *(part.rjust(2, "0") for part in found.groups()[1:] if part)]))


def paper_ids(pmcid: str, pmid: str, doi: str) -> tuple[str, str]:
    """Return (document id, address) of a paper by the first of its numbers that there is, ("", "") for none."""
    number = pmcid.upper().removeprefix("PMC")
    if is_number(number):
        return f"PMC:{int(number)}", f"https://pmc.ncbi.nlm.nih.gov/articles/PMC{int(number)}/"
    if is_number(pmid, 9):
        return f"PMID:{int(pmid)}", f"https://pubmed.ncbi.nlm.nih.gov/{int(pmid)}/"
    return (f"DOI:{doi}", f"https://doi.org/{doi}") if doi else ("", "")


@contextlib.contextmanager
def unreadable_file() -> Iterator[None]:
    """Translate errors of the gateway's readers to DocumentUnreadable."""
    try:
        yield
    except ImportFileError as error:
        raise DocumentUnreadable(error.message) from error


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a document's file.

    Raises:
        DocumentUnreadable: the file cannot be read.
    """
    try:
        return digest_file(path).sha256
    except OSError as error:
        raise DocumentUnreadable(f"{path}: cannot be read: {error.strerror}") from error
