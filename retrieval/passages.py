"""Define passages, documents and hits, which every index, method and citation shares.

It knows nothing of storage.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# A passage's publication types as bits of one integer, so that a filter over millions of rows is one vector operation.
# Only the order counts, and it may only grow at the end: indices on disk hold the bits.
PUBLICATION_TYPES: Final[tuple[str, ...]] = (
    "journal article",
    "review",
    "systematic review",
    "meta-analysis",
    "randomized controlled trial",
    "clinical trial",
    "observational study",
    "case reports",
    "practice guideline",
    "guideline",
    "comparative study",
    "multicenter study",
    "validation study",
    "editorial",
    "letter",
    "comment",
    "news",
    "preprint",
    "book chapter",
    "textbook",
    "encyclopedia",
    "retracted publication",
    "retraction notice",
    "published erratum",
    "expression of concern",
)
_ID_BITS: Final = 63
_NAMESPACE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Describe one source text: an article, a book chapter, a PDF.

    ``document_id`` is stable across fetches: "PMID:123", "PMC:123", "NBK:430685", or "sha256:…" of a file's content.
    ``date`` is yyyymmdd with zeros where unknown (20030500), 0 for no date. ``types`` are publication types in lower
    case. ``provenance`` is the file or address it was read from, ``retrieved`` the day (yyyy-mm-dd). ``record`` is the
    id of another document that describes the same paper ("PMID:123" of a full text), "" for none. ``version`` counts
    the texts under one id where the source does, from 2 on; 0 for the first or only one.
    """

    document_id: str
    title: str
    source: str = ""
    url: str = ""
    authors: tuple[str, ...] = ()
    journal: str = ""
    date: int = 0
    types: tuple[str, ...] = ()
    licence: str = ""
    provenance: str = ""
    retrieved: str = ""
    retracted_by: tuple[str, ...] = ()
    corrected_by: tuple[str, ...] = ()
    record: str = ""
    version: int = 0

    @property
    def paper(self) -> str:
        """Return the id that all texts of one paper share."""
        return self.record or self.document_id

    @property
    def is_retracted(self) -> bool:
        """Return whether a notice or the article's own type says so; sources give one or the other."""
        return bool(self.retracted_by) or "retracted publication" in self.types


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """Hold a segment of a document as it is embedded, ranked and cited.

    ``start``, ``end`` are character offsets into the document's text as it was read, so that ``text`` is that slice;
    ``section`` is its heading path ("Results"), "" where there is none; ``page`` is 1-based, 0 where there are none.
    """

    passage_id: int
    document_id: str
    title: str
    text: str
    section: str = ""
    start: int = 0
    end: int = 0
    page: int = 0
    date: int = 0
    types: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """Return the title of the document and the section, which encoders receive beside the text."""
        return f"{self.title} -- {self.section}" if self.section else self.title


@dataclass(frozen=True, slots=True)
class Hit:
    """Pair a passage with its score; higher is better, on the scale of its ranker."""

    passage_id: int
    score: float


def is_namespace_name(name: str) -> bool:
    return _NAMESPACE.fullmatch(name) is not None


def passage_id(namespace: str, document_id: str, start: int, text: str) -> int:
    """Return a positive 63-bit id that is stable for the same passage of the same namespace.

    It is the same at every fetch, and different passages have different ids.
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in (namespace, document_id, str(start), text):
        digest.update(part.encode())
        digest.update(b"\0")
    return int.from_bytes(digest.digest(), "big") >> (64 - _ID_BITS) or 1


def type_bits(types: Iterable[str]) -> int:
    """Return the bits of those types that have one.

    Only the passage store can filter by the other types.
    """
    known = {name: 1 << place for place, name in enumerate(PUBLICATION_TYPES)}
    bits = 0
    for name in types:
        bits |= known.get(name.strip().lower(), 0)
    return bits
