"""Define the SQLite tables of a namespace's store, and the encoding of its rows, which other stores may use.

It knows nothing of files or indices.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from retrieval.corpus.items import ParsedDocument, Span
from retrieval.errors import NamespaceDamaged
from retrieval.formats.notation import typed_powers
from retrieval.passages import Document, Passage, passage_id, type_bits

SCHEMA_VERSION: Final = "1"
STORE_NAME: Final = "passages.sqlite"
_ZIP_FROM: Final = 4096  # characters; compressing shorter texts saves little
_MIN_SAME: Final = 100
_NO_WORD: Final = re.compile(r"[\W_]+")

# ``pending`` is the journal: passages that an index lacks, or must still delete. ``twin`` has duplicates of passages of
# other documents: stored for their provenance, and to replace such a passage when it is deleted.
_TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE document (
    number INTEGER PRIMARY KEY, document_id TEXT NOT NULL UNIQUE, provenance TEXT NOT NULL, digest BLOB NOT NULL,
    date INTEGER NOT NULL, types TEXT NOT NULL, body TEXT NOT NULL, spans TEXT NOT NULL, content NOT NULL,
    whole INTEGER NOT NULL
);
CREATE INDEX document_provenance ON document (provenance) WHERE document_id LIKE 'sha256:%';
CREATE TABLE passage (
    passage_id INTEGER PRIMARY KEY, document INTEGER NOT NULL REFERENCES document (number), start INTEGER NOT NULL,
    stop INTEGER NOT NULL, section TEXT NOT NULL, page INTEGER NOT NULL, same BLOB NOT NULL
);
CREATE INDEX passage_document ON passage (document, start);
CREATE UNIQUE INDEX passage_same ON passage (same);
CREATE TABLE twin (
    passage_id INTEGER PRIMARY KEY, document INTEGER NOT NULL REFERENCES document (number), start INTEGER NOT NULL,
    stop INTEGER NOT NULL, section TEXT NOT NULL, page INTEGER NOT NULL, same BLOB NOT NULL
);
CREATE INDEX twin_document ON twin (document);
CREATE INDEX twin_same ON twin (same);
CREATE TABLE pending (target TEXT NOT NULL, passage_id INTEGER NOT NULL, gone INTEGER NOT NULL,
                      PRIMARY KEY (target, passage_id)) WITHOUT ROWID;
CREATE TABLE source (digest TEXT PRIMARY KEY, name TEXT NOT NULL, reader TEXT NOT NULL, done TEXT NOT NULL,
                     counts TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE passed (file TEXT NOT NULL, line INTEGER NOT NULL, reason TEXT NOT NULL,
                     PRIMARY KEY (file, line)) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Cut:
    """Hold the row of a passage; ``same`` is equal for passages with the same words."""

    passage_id: int
    span: Span
    same: bytes


def create(connection: sqlite3.Connection) -> None:
    connection.executescript(_TABLES)


def pack(text: str) -> str | bytes:
    if len(text) < _ZIP_FROM:
        return text
    return zlib.compress(text.encode(), 6)


def unpack(content: str | bytes) -> str:
    return content if isinstance(content, str) else zlib.decompress(content).decode()


def duplicate_key(text: str, passage_id: int) -> bytes:
    """Return a digest that is equal for texts with the same letters and numbers in the same order.

    Short texts ("Editorial.") are never equal: they are too unspecific to replace each other.
    """
    words = _NO_WORD.sub(" ", unicodedata.normalize("NFKC", typed_powers(text)).casefold()).strip()
    words = words if len(words) >= _MIN_SAME else f"\0{passage_id}"
    return hashlib.blake2b(words.encode(), digest_size=16).digest()


_In = TypeVar("_In")
_Out = TypeVar("_Out")


def _checked(parse: Callable[[_In], _Out]) -> Callable[[_In], _Out]:
    """Return a parser of what a store holds that raises NamespaceDamaged for what cannot have been written so."""

    def parsed(value: _In) -> _Out:
        try:
            return parse(value)
        except (ValueError, TypeError, KeyError, zlib.error) as error:
            raise NamespaceDamaged(f"a stored document cannot be read: {error}") from error

    return parsed


def digest_of(reading: ParsedDocument, chunking: str) -> bytes:
    """Return a digest of everything that determines passages, vectors and the columns that filters use."""
    document = reading.document
    parts = (document.title, reading.text, spans_text(reading.spans), str(reading.whole), str(document.date))
    state = hashlib.blake2b(digest_size=16)
    for part in (*parts, types_text(document.types), chunking):
        state.update(part.encode())
        state.update(b"\0")
    return state.digest()


def spans_text(spans: Iterable[Span]) -> str:
    return json.dumps([[s.start, s.end, s.section, s.page] for s in spans], ensure_ascii=False, separators=(",", ":"))


def spans_of(text: str) -> tuple[Span, ...]:
    return tuple(Span(int(start), int(end), str(section), int(page)) for start, end, section, page in json.loads(text))


def types_text(types: Iterable[str]) -> str:
    """Join types between bars, so that SQL can find a single one: "|review|journal article|"."""
    return "|".join(("", *types, ""))


def document_text(document: Document) -> str:
    fields = {name: value for name in _FIELDS if (value := getattr(document, name))}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def document_of(text: str) -> Document:
    """Parse a document from its JSON text.

    Raises:
        ValueError: the text is not a document.
    """
    fields = json.loads(text)
    if not isinstance(fields, dict) or not isinstance(fields.get("document_id"), str) or not fields["document_id"]:
        raise ValueError("no document")
    for name, value in fields.items():
        expected = _FIELDS.get(name)
        if expected is None:
            raise ValueError(f"a document has no {name[:40]!r}")
        if expected is tuple:
            if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
                raise ValueError(f"{name} is no list of texts")
            fields[name] = tuple(value)
        elif type(value) is not expected:
            raise ValueError(f"{name} is no {expected.__name__}")
    return Document(**{"title": "", **fields})


_FIELDS: Final[dict[str, type[Any]]] = {
    **dict.fromkeys(("document_id", "title", "source", "url", "journal", "licence", "provenance", "retrieved"), str),
    "record": str,
    **dict.fromkeys(("authors", "types", "retracted_by", "corrected_by"), tuple),
    "date": int,
    "version": int,
}


def is_older(document: Document, stored: str) -> bool:
    """Return whether the store has a later version of a document, from the JSON text of what it has."""
    return '"version":' in stored and document.version < document_of(stored).version


def passage_of(cut: Sequence[Any], document: Document, text: str) -> Passage:
    """Build a passage with its text from its row.

    ``cut``: passage_id, start, stop, section, page.

    Raises:
        NamespaceDamaged: one of them is of another type.
    """
    number, start, stop, section, page = cut
    if not (isinstance(section, str) and all(isinstance(one, int) for one in (number, start, stop, page))):
        raise NamespaceDamaged("the row of a stored passage cannot be read")
    return Passage(
        passage_id=number,
        document_id=document.document_id,
        title=document.title,
        text=text,
        section=section,
        start=start,
        end=stop,
        page=page,
        date=document.date,
        types=document.types,
    )


def cuts_of(namespace: str, reading: ParsedDocument, spans: Iterable[Span]) -> dict[int, Cut]:
    """Return the rows of a document's passages by their ids."""
    cuts: dict[int, Cut] = {}
    for span in spans:
        text = reading.text[span.start : span.end]
        number = passage_id(namespace, reading.document.document_id, span.start, text)
        cuts[number] = Cut(number, span, duplicate_key(text, number))
    return cuts


def bits_of(document: Document) -> int:
    return type_bits(document.types)


stored_document, stored_spans, stored_text = _checked(document_of), _checked(spans_of), _checked(unpack)
stored_number: Callable[[Any], int] = _checked(int)
