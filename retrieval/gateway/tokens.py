"""Split text into index words, by the same rules for records and for search terms."""

from __future__ import annotations

import re
from typing import Final

_SEPARATORS: Final = re.compile(r"[\s\x00-\x1f\x7f,;:|/\\()\[\]{}\"<>=]+")
_EDGES: Final = ".'-_*!?"
STOPWORDS: Final = frozenset(
    {"a", "an", "and", "are", "by", "due", "for", "in", "is", "of", "on", "or", "the", "to", "with"}
)


def words_of(text: str) -> tuple[str, ...]:
    """Return lower-case words in order; hyphens, dots and primes inside a word stay (15-lox, ac006042.8)."""
    return tuple(word for word in (part.strip(_EDGES) for part in _SEPARATORS.split(text.lower())) if word)


def index_words(text: str) -> frozenset[str]:
    """Return the words of a record's text, and the parts of its hyphenated ones."""
    words = set(words_of(text))
    for word in tuple(words):
        words.update(part for part in word.split("-") if part)
    return frozenset(words)


def phrase_of(text: str) -> str:
    """Join the words by single blanks, a blank on both ends, so that a phrase can be found as a substring."""
    return f" {' '.join(words_of(text))} "


def year_word(year: int) -> str:
    """Return the index word for the year of an article, which no text contains."""
    return f"inyear{year}"


def whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def day(date: str) -> int | None:
    """Return "2003-05-02" as 20030502; unknown parts count as 0, so that a year sorts before its months."""
    found = re.match(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?", date)
    return int(f"{found[1]}{found[2] or '00'}{found[3] or '00'}") if found else None
