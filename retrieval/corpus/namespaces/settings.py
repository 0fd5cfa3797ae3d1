"""Define the name and the settings of a namespace, which are chosen once and stored with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from models.encoders.base import Encoder
from retrieval.corpus.chunking import Chunking
from retrieval.corpus.errors import NamespaceInvalid
from retrieval.corpus.store.base import TARGETS, PassageStores, Target
from retrieval.index.base import VectorIndex
from retrieval.lexical.base import LexicalIndex
from retrieval.passages import Passage

_BACKEND: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
_MAX_ENCODER: Final = 500
NO_WORDS: Final = "none"
# Back ends of words that were removed, and the one that takes over their namespaces.
_REPLACED_WORDS: Final = {"fts5": "tantivy"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceSettings:
    """Choose the encoder, the indices and the chunking of a namespace.

    ``encoder``: the id of the encoder of its vectors, "" for none. ``words``: the lexical back end, or "none".
    ``keywords``: whether it can rank by keyword frequency (PES2).

    Raises:
        NamespaceInvalid: an invalid value.
    """

    encoder: str = ""
    words: str = "tantivy"
    keywords: bool = True
    chunking: Chunking = field(default_factory=Chunking)

    def __post_init__(self) -> None:
        if not self.encoder.isprintable() or len(self.encoder) > _MAX_ENCODER or self.encoder != self.encoder.strip():
            raise NamespaceInvalid("an encoder's id is a name, a hub id or a folder", param="encoder")
        if _BACKEND.fullmatch(self.words) is None:
            raise NamespaceInvalid("a lexical back end's name has small letters, digits, _ and -", param="words")

    @property
    def targets(self) -> tuple[Target, ...]:
        """Return the indices that the namespace has."""
        has = {"vectors": bool(self.encoder), "words": self.words != NO_WORDS, "keywords": self.keywords}
        return tuple(target for target in TARGETS if has[target])

    def as_text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


class TextIndex(Protocol):
    """Fill an index of words or of keywords, under the contract of ``LexicalIndex``."""

    def add(self, passages: Iterable[Passage]) -> int: ...

    def delete(self, ids: Sequence[int]) -> None: ...

    def commit(self) -> None: ...

    def __len__(self) -> int: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """Open the stores, encoders and indices of namespaces.

    ``stores`` takes the folder of all namespaces, below which it may keep its files.

    Each callable for indices opens what a folder contains, as its single writer where the last argument says so, else
    as one of many readers. A writer finds its folder missing or empty the first time, and leaves an index there that
    readers can open, even an empty one.

    ``encoders`` returns the same object for the same id as long as it is loaded; ``words`` takes the back end's name.
    ``vector_rows`` returns the rows that the vectors of a folder have committed, without an encoder; None where only
    the open index tells.
    """

    stores: Callable[[Path], PassageStores]
    encoders: Callable[[str], Encoder]
    vectors: Callable[[Path, Encoder, bool], VectorIndex]
    words: Callable[[Path, str, bool], LexicalIndex]
    keywords: Callable[[Path, bool], TextIndex]
    vector_rows: Callable[[Path], int] | None = None


def settings_of(text: str) -> NamespaceSettings:
    """Parse settings from the output of ``as_text``; a lexical back end that was removed is replaced by today's.

    Raises:
        NamespaceInvalid: any other text.
    """
    try:
        fields: dict[str, Any] = json.loads(text)
        chunking = fields["chunking"]
        sizes = {name: chunking[name] for name in ("size", "overlap")}
        flags = (chunking["by_section"], fields["keywords"])
        if not all(type(value) is int for value in sizes.values()) or not all(type(flag) is bool for flag in flags):
            raise TypeError("chunking")
        return NamespaceSettings(
            encoder=str(fields["encoder"]),
            words=_REPLACED_WORDS.get(str(fields["words"]), str(fields["words"])),
            keywords=fields["keywords"],
            chunking=Chunking(size=sizes["size"], overlap=sizes["overlap"], by_section=chunking["by_section"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NamespaceInvalid("these are no settings of a namespace", param="settings") from error


def has_replaced_words(text: str) -> bool:
    """Return whether valid settings name a lexical back end that was removed."""
    return json.loads(text)["words"] in _REPLACED_WORDS


def embedded_title(passage: Passage) -> str:
    """Return the title of the document and the section, which encoders receive beside a passage's text."""
    return f"{passage.title} -- {passage.section}" if passage.section else passage.title
