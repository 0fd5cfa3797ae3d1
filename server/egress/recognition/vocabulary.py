"""Define the closed vocabulary whose words may leave, and the rules for the words that can be read as plain language.

Symbols and aliases of genes include ordinary words and names of people (CAT, REST, MAX), so that a list of symbols
alone does not keep sentences here. Pure; ``server.wiring`` supplies the names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, Protocol

from retrieval.types import MAX_NAME_CHARS, KnownName, NameKind, same

_SYMBOLS: Final[frozenset[NameKind]] = frozenset({"symbol", "alias", "other_symbol"})
_OPERATORS: Final = frozenset({"AND", "OR", "NOT"})
_BASES: Final = re.compile(r"[ACGTUN]+", re.IGNORECASE)
_PARTS: Final = re.compile(r"[A-Za-z]+")
# Words of language that are shorter than those of the list of ordinary words.
_TWO_LETTERS: Final = """
ad ah al am an as at be by do ed go ha he hi if in is it jo ma me mr ms my no of oh ok on or ow pa so ti to up us we ya
ye yo
"""
_SHORT_WORDS: Final = frozenset(_TWO_LETTERS.split())


class Vocabulary(Protocol):
    """Answer what names this site's own data has, and which words are ordinary ones; called from any thread."""

    def find(self, name: str, kinds: Collection[NameKind]) -> Iterable[KnownName]:
        """Yield the names of these kinds that equal the whole of ``name`` but for letter case, as they are found."""
        ...

    def is_ordinary(self, word: str) -> bool:
        """Return whether a word in lower case is one of everyday language or the name of a person."""
        ...


class EmptyVocabulary:
    """Know no names, so that no word may leave."""

    def find(self, name: str, kinds: Collection[NameKind]) -> tuple[KnownName, ...]:
        return ()

    def is_ordinary(self, word: str) -> bool:
        return True


def known_name(written: str, kinds: Collection[NameKind], vocabulary: Vocabulary) -> KnownName | None:
    """Return the entry of the vocabulary that ``written`` is, None if there is none that may leave.

    Each part of a name is in its stored letter case, or in small letters, in capitals, or with a first capital.
    """
    if not written or len(written) > MAX_NAME_CHARS:
        return None
    for entry in vocabulary.find(written, kinds):
        spelled = entry.spelling.isascii() and same(written, entry.spelling) and _is_plain_case(written, entry.spelling)
        if spelled and _may_leave(entry, vocabulary):
            return entry
    return None


def reads_as_language(entry: KnownName, vocabulary: Vocabulary) -> bool:
    """Return whether a symbol is also an ordinary word, a name of a person, or a piece of a sequence."""
    return entry.kind in _SYMBOLS and _is_ordinary(entry.spelling, vocabulary)


def is_symbol(entry: KnownName) -> bool:
    return entry.kind in _SYMBOLS


def _may_leave(entry: KnownName, vocabulary: Vocabulary) -> bool:
    """Return whether a known name is specific enough.

    Official symbols of human genes are; an alias only if it is no ordinary word; other species have given genes the
    names of so many things that their symbols need a digit.
    """
    if entry.spelling.upper() in _OPERATORS:
        return False
    match entry.kind:
        case "alias":
            return not _is_ordinary(entry.spelling, vocabulary)
        case "other_symbol":
            return any(letter.isdigit() for letter in entry.spelling) and not _is_ordinary(entry.spelling, vocabulary)
    return True


def _is_ordinary(word: str, vocabulary: Vocabulary) -> bool:
    """Return whether a word is language, as a whole or each part of a hyphenated one, or consists of bases (GAA)."""
    if _BASES.fullmatch(word):
        return True
    if any(letter.isdigit() for letter in word):
        return False
    parts = [part.lower() for part in _PARTS.findall(word)]
    return bool(parts) and all(part in _SHORT_WORDS or len(part) == 1 or vocabulary.is_ordinary(part) for part in parts)


def _is_plain_case(written: str, stored: str) -> bool:
    places = [(found.start(), found.end()) for found in _PARTS.finditer(stored)]
    for start, end in places:
        part, own = written[start:end], stored[start:end]
        if part not in (own, own.lower(), own.upper(), own.capitalize()):
            return False
    return True
