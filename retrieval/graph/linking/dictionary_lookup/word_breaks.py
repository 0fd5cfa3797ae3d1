"""Undo wrong word breaks: "hypo thyroidism" is hypothyroidism, "breastcancer" is breast cancer, and neither is a part.

The two pieces of a split word keep their characters, so that no name within the written word counts as a whole word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from retrieval.graph.linking.dictionary_lookup.name_table import NameTable
from retrieval.graph.linking.dictionary_lookup.normalize import Token, fold, gap_before, hash_tokens
from retrieval.graph.linking.dictionary_lookup.vocabulary import Vocabulary

_LEAST_PIECE: Final = 3
_LEAST_WRITTEN: Final = 8
_MOST_SPLIT: Final = 16
# Prefixes that are also known words by themselves, from abbreviations and names of companies.
_PREFIXES: Final = frozenset(("hyper", "hypo", "micro", "macro", "poly", "osteo", "neuro", "cardio", "peri", "para"))


@dataclass(frozen=True, slots=True)
class WordBreaks:
    """Mend tokens by the words of all names and of English."""

    table: NameTable
    names: Vocabulary
    english: Vocabulary

    def mend(self, text: str, tokens: Sequence[Token]) -> list[Token]:
        """Return the tokens with broken words joined and joined words split, where a name's words come out."""
        return self._split(text, list(self._joined(text, tokens)))

    def _joined(self, text: str, tokens: Sequence[Token]) -> Iterator[Token]:
        place = 0
        while place < len(tokens):
            whole = self._whole(text, tokens, place)
            if whole:
                yield Token(whole, tokens[place].start, tokens[place + 1].end)
            else:
                yield tokens[place]
            place += 2 if whole else 1

    def _whole(self, text: str, tokens: Sequence[Token], place: int) -> str:
        """Return the word that the tokens at ``place`` and after it are, "" for none."""
        if place + 1 >= len(tokens) or gap_before(text, tokens, place + 1) not in (" ", "-"):
            return ""
        pieces = tokens[place : place + 2]
        if any(len(piece.text) < _LEAST_PIECE or not piece.text.isalpha() for piece in pieces):
            return ""
        if pieces[0].text not in _PREFIXES and all(self._is_word(piece.text) for piece in pieces):
            return ""
        words = fold("".join(text[piece.start : piece.end] for piece in pieces))
        return words[0] if len(words) == 1 and self.names.has(words)[0] else ""

    def _split(self, text: str, tokens: list[Token]) -> list[Token]:
        tried = 0
        found: list[Token] = []
        for place, token in enumerate(tokens):
            pair = None
            if token.end - token.start >= _LEAST_WRITTEN and token.text.isalpha() and not self._is_word(token.text):
                tried += 1
                pair = self._pair(text, tokens, place) if tried <= _MOST_SPLIT else None
            found.extend(pair or (token,))
        return found

    def _pair(self, text: str, tokens: Sequence[Token], place: int) -> tuple[Token, Token] | None:
        """Return the two words that a token is, if they are a name, or part of one, in exactly one way."""
        token = tokens[place]
        cuts = range(_LEAST_PIECE, len(token.text) - _LEAST_PIECE + 1)
        pairs = [(token.text[:cut], token.text[cut:]) for cut in cuts]
        pairs = [pair for pair in pairs if all(self.names.has(pair))]
        before = [tokens[place - 1].text] if place else []
        after = [other.text for other in tokens[place + 1 : place + 3]]
        named = [pair for pair in pairs if self._is_name(pair, before, after)]
        if len(named) != 1:
            return None
        cut = token.start + len(named[0][0])
        # Where British spelling is normalized, the characters of the pieces are not known.
        if text[token.start : cut].casefold() != named[0][0]:
            return None
        return Token(named[0][0], token.start, cut), Token(named[0][1], cut, token.end)

    def _is_name(self, pair: tuple[str, str], before: Sequence[str], after: Sequence[str]) -> bool:
        forms = [(*first, *pair, *after[:more]) for first in ((), tuple(before)) for more in range(len(after) + 1)]
        firsts, lasts = self.table.ranges(np.array([hash_tokens(form) for form in forms], np.uint64))
        return bool((lasts > firsts).any())

    def _is_word(self, word: str) -> bool:
        return self.names.has([word])[0] or self.english.has([word])[0]


def read_otherwise(text: str, tokens: Iterable[Token], mended: Sequence[Token]) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, words as read) of each place that was mended."""
    as_written = {(token.start, token.end) for token in tokens}
    changed = [token for token in mended if (token.start, token.end) not in as_written]
    place = 0
    while place < len(changed):
        pair = changed[place : place + 2]
        if len(pair) == 2 and pair[0].end == pair[1].start:
            yield pair[0].start, pair[1].end, f"{pair[0].text} {pair[1].text}"
            place += 2
        else:
            yield pair[0].start, pair[0].end, pair[0].text
            place += 1
