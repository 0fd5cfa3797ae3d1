"""Split passages into sentences, each an exact slice of its text. Pure.

The rules are for abstracts, text books and PDF text: full stops of abbreviations, initials, species names and decimals
end no sentence, a line break within a sentence is a blank, and an empty line or a list item begins a new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# A longer sentence is a table or a list without full stops; it is cut at its semicolons.
MAX_SENTENCE: Final = 600
_MIN_WORDS: Final = 3
_ITEM: Final = r"(?:[•▪●◦*–-]|\d{1,2}[.)]|\(?[a-z]\))[ \t]+(?=\S)"
_BLOCK: Final = re.compile(rf"\n[ \t]*\n\s*(?:{_ITEM})?|\n[ \t]*{_ITEM}")
# An end of a sentence: its sign, marks that close it, white space, then what can begin one.
_END: Final = re.compile(r"[.?!]+[\"'”’)\]]*(?:\[\d[\d,;– -]{0,20}\])?(\s+)(?=[\"'“‘(\[]*[A-ZΑ-ΩÀ-Þ0-9])")
_SEMICOLON: Final = re.compile(r";\s+")
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_LAST_WORD: Final = re.compile(r"(?:^|[\s(\[\"'“])([^\s(\[\"'“]{1,12})$")
_ABBREVIATIONS: Final = frozenset(
    re.findall(
        r"\S+",
        "e.g i.e etc al fig figs eq eqs ref refs no nos vs approx ca cf dr prof mr mrs ms st jr sr dept ed eds vol pp "
        "p sp spp subsp var ssp resp incl min max avg temp conc wt mol i.v i.m i.p s.c p.o b.i.d t.i.d q.d u.s "
        "u.k d.c inc ltd co corp univ tab suppl chap sec def viz",
    )
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """Hold one sentence: ``text`` is the passage's ``[start:end]``."""

    text: str
    start: int
    end: int

    @property
    def line(self) -> str:
        """Return the sentence with each run of white space as one blank."""
        return " ".join(self.text.split())


def split_sentences(text: str) -> list[Sentence]:
    """Return the sentences in their order, without fragments of fewer than three words; never raises."""
    return [
        Sentence(text[low:high], low, high)
        for begin, end in _blocks(text)
        for low, high in _pieces(text, begin, end)
        if high - low <= MAX_SENTENCE and _has_words(text, low, high)
    ]


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    begin = 0
    for found in _BLOCK.finditer(text):
        yield begin, found.start()
        begin = found.end()
    yield begin, len(text)


def _pieces(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    low = begin
    for found in _END.finditer(text, begin, end):
        if _ends(text, low, found):
            yield from _cut(text, low, found.start(1))
            low = found.end()
    yield from _cut(text, low, end)


def _ends(text: str, low: int, found: re.Match[str]) -> bool:
    """Return whether the sign ends a sentence: not after an abbreviation or an initial."""
    if text[found.start()] != "." or found[0][1:2] in ('"', "'", "”", "’", "]", "?", "!"):
        return True
    begin = max(low, found.start() - 14)
    before = _LAST_WORD.search(text[begin : found.start()])
    if before is None:
        return True
    word = before[1]
    if word.casefold().strip(".") in _ABBREVIATIONS:
        # "no." and "min." are words, too: they stay abbreviations only before a number.
        return word.casefold() in {"no", "min", "max", "co"} and not text[found.end() : found.end() + 1].isdigit()
    # The initial of a species or of a person, but not the last letter of "vitamin A" or "group B".
    is_initial = len(word) == 1 and word.isalpha() and word.isupper()
    return not (is_initial and (begin + before.start(1) == low or not _names_letter(text, begin + before.start(1))))


def _names_letter(text: str, place: int) -> bool:
    """Return whether a lower-case word stands before a single letter, as in "vitamin A."."""
    words = text[max(0, place - 20) : place].split()
    return bool(words) and words[-1].isalpha() and words[-1].islower() and len(words[-1]) > 3


def _cut(text: str, low: int, high: int) -> Iterator[tuple[int, int]]:
    while low < high and text[low].isspace():
        low += 1
    while high > low and text[high - 1].isspace():
        high -= 1
    if high - low <= MAX_SENTENCE:
        if low < high:
            yield low, high
        return
    begin = low
    for found in _SEMICOLON.finditer(text, low, high):
        yield begin, found.start() + 1
        begin = found.end()
    yield begin, high


def _has_words(text: str, low: int, high: int) -> bool:
    words = _WORD.finditer(text, low, high)
    return sum(1 for _, _ in zip(range(_MIN_WORDS), words, strict=False)) == _MIN_WORDS
