"""Decide whether a name in a text is meant: "set" is a word, SET a gene, and "MS" in "MS degree" no disease."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from retrieval.formats.english import is_ordinary
from retrieval.graph.linking.dictionary_lookup.names import CLAIM, SYMBOL, SYNONYM, is_english, is_indexable
from retrieval.graph.linking.dictionary_lookup.normalize import Token, fold, gap_before


def _names(text: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(fold(name)) for name in text.split(";"))


_GENERIC: Final = _names(
    "disease; disorder; syndrome; cancer; tumor; neoplasm; infection; disability; condition; illness; malignancy; "
    "carcinoma; deficiency; abnormality; injury; inflammation; disease or disorder"
)
# Everyday phrases in which a word is no name.
_PHRASES: Final = _names(
    "AAA torch; AD campaign; born under the sign of cancer; breast stroke; butterfly stroke; CAD software; "
    "cancer and Leo; CF card; CHF per month; depression over; economic depression; gold fever; gold rush fever; "
    "great depression; HD television; MS degree; MS thesis; MS word; night fever; OA journal; PD arrested; PE teacher; "
    "plague of tourists; shock wave; stroke of luck; traffic paralysis; UC Berkeley"
)
# Words that say of which degree, course or age a disease is, not which one: severe asthma is asthma.
_DEGREES: Final = frozenset(
    fold(
        """
        severe mild moderate chronic acute early late onset advanced active persistent recurrent relapsing refractory
        resistant uncontrolled untreated familial hereditary inherited sporadic metastatic invasive childhood adult
        """
    )
)
_CONTRARIES: Final = ("non", "pre", "pseudo")
_HYPHENS: Final = frozenset("-‐‑–")
_WORD_BEFORE: Final = re.compile(r"(\w+)(?:['’]s)?[-\s]$")
_LEAST_SYMBOL: Final = 3
# Letters and digits that two words have and are no symbol: "in 1".
_MOST_SPACED: Final = 5
_LEAST_SENTENCE: Final = 4
_SHORT_QUESTION: Final = 4


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Represent a window of tokens of a text, ``first`` up to ``last`` - 1.

    ``words``: those of the whole name, which a coordination completes by words outside the window.
    """

    text: str
    tokens: Sequence[Token]
    first: int
    last: int
    words: tuple[str, ...]

    @property
    def start(self) -> int:
        return self.tokens[self.first].start

    @property
    def end(self) -> int:
        return self.tokens[self.last - 1].end

    @property
    def raw(self) -> str:
        return self.text[self.start : self.end]

    @property
    def letters(self) -> int:
        """Return the number of characters of the tokens, without separators."""
        return sum(len(token.text) for token in self.tokens[self.first : self.last])

    @property
    def is_whole(self) -> bool:
        """Return True if the window is no part of a word or a contrary: DNMT3A, non-Hodgkin lymphoma, lupus-like."""
        tokens, first, last = self.tokens, self.first, self.last
        before = gap_before(self.text, tokens, first) if first else " "
        after = gap_before(self.text, tokens, last) if last < len(tokens) else " "
        is_contrary = self.before() in _CONTRARIES and not before.strip("-‐‑– ")
        is_likeness = after in _HYPHENS and tokens[last].text == "like"
        return bool(before and after) and not is_contrary and not is_likeness

    def before(self) -> str:
        return self.tokens[self.first - 1].text if self.first else ""


def is_generic(words: Sequence[str]) -> bool:
    return tuple(words) in _GENERIC


def is_degree(tokens: Sequence[Token]) -> bool:
    return all(token.text in _DEGREES for token in tokens)


def is_modified(text: str, start: int) -> bool:
    """Return True if a word that is not English directly precedes ``start``: "keratinocyte carcinoma"."""
    word = _WORD_BEFORE.search(text[max(0, start - 40) : start])
    return word is not None and not is_english(word[1])


def is_meant(stretch: TokenSpan, flags: int, same_case: bool, is_clinical: bool) -> bool:
    """Return True if the window means a name with these ``flags``.

    ``same_case``: the window is spelled exactly as the name, letter case included. ``is_clinical``: the name is that of
    a disease or the like, whose chief abbreviation may be in small letters.
    """
    raw = stretch.raw
    if len(raw) == 1 or all(map(str.isdigit, stretch.words)):
        return False
    if not flags & SYMBOL:
        return True
    if stretch.letters <= _MOST_SPACED and len(raw.split()) > 1:
        return False
    if raw.islower() and raw.isalpha():
        if is_clinical:
            return not flags & (SYNONYM | CLAIM) and is_abbreviation_meant(stretch)
        # "gibt" in a German sentence is a word of it.
        if _is_foreign(stretch):
            return False
    by_capitals = same_case and not stretch.text.isupper()
    # "Rest" and "SELL": only capitals make an English word a symbol.
    if raw.isalpha() and is_english(raw):
        return by_capitals and sum(c.isupper() for c in raw) > 1
    return by_capitals or len(raw) >= _LEAST_SYMBOL


def _is_foreign(stretch: TokenSpan) -> bool:
    """Return True if most words of a sentence are not English."""
    words = [token.text for token in stretch.tokens if is_indexable(token.text)]
    return len(words) >= _LEAST_SENTENCE and 2 * sum(map(is_english, words)) < len(words)


def is_false_friend(stretch: TokenSpan) -> bool:
    """Return True if the span is a word of an everyday phrase."""
    if len(stretch.words) > 1:
        return False
    (word,) = stretch.words
    phrases = ((phrase, stretch.first - phrase.index(word)) for phrase in _PHRASES if word in phrase)
    return any(
        first >= 0 and phrase == tuple(token.text for token in stretch.tokens[first : first + len(phrase)])
        for phrase, first in phrases
    )


def is_abbreviation_meant(stretch: TokenSpan) -> bool:
    """Return True if letters that abbreviate a disease's name do so in their text.

    Not in small letters behind a number ("20 ms"), nor two capitals outside questions.
    """
    raw = stretch.raw
    if raw.islower():
        return not stretch.before().isdigit() and not is_ordinary(raw) and not _is_foreign(stretch)
    return len(raw) >= _LEAST_SYMBOL or "?" in stretch.text[stretch.end :] or len(stretch.tokens) <= _SHORT_QUESTION
