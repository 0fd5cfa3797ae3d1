"""Correct words of a question that are in no name and not English, and undo wrong word breaks.

A correction counts only if it completes a name, and the name with the most of the question's letters wins: "rheumtaoid
arthritis" does not match arthritis alone. If two names are equally near, neither is accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from retrieval.graph.linking.dictionary_lookup.ambiguity import is_generic, is_kind_word
from retrieval.graph.linking.dictionary_lookup.matching import Candidate, Kinds, Matcher
from retrieval.graph.linking.dictionary_lookup.names import (
    ALIAS,
    CLAIM,
    COMPACT,
    SYMBOL,
    SYNONYM,
    Edit,
    NameTable,
    Typo,
    Vocabulary,
)
from retrieval.graph.linking.dictionary_lookup.normalize import (
    Token,
    fold,
    gap_before,
    hash_tokens,
    numeral,
)

MAX_UNKNOWN: Final = 16
_MAX_SLIPS: Final = 12
_REACH: Final = 12
# Minimum length of a word alone, by the type of typo; another last letter is mostly another word. Substances differ by
# single letters (cystine, cysteine).
_LEAST_ALONE: Final[Mapping[Edit, int]] = {"exchanged": 6, "doubled": 6, "missing": 6, "replaced": 8}
_LEAST_OF_SUBSTANCES: Final[Mapping[Edit, int]] = {"exchanged": 6, "doubled": 6, "missing": 9}
_SUBSTANCES: Final = ("compound", "drug", "chemical", "gene", "protein", "variant", "metabolite", "nutrient")
_MOST_SYMBOL: Final = 7
_LEAST_PIECE: Final = 3
_LEAST_WRITTEN: Final = 8
_MOST_SPLIT: Final = 16
# Prefixes that are also known words by themselves, from abbreviations and names of companies.
_PREFIXES: Final = frozenset(("hyper", "hypo", "micro", "macro", "poly", "osteo", "neuro", "cardio", "peri", "para"))


@dataclass(frozen=True, slots=True)
class SpellingResult:
    """Hold the spelling corrections of a text.

    ``tokens``: the text's tokens with every unambiguous correction applied. ``slips``: possible corrections by the
    position of an unknown token. ``ambiguous``: equally near names by position. ``left_out``: number of unknown words
    beyond the limit.
    """

    tokens: list[Token]
    slips: Mapping[int, Sequence[Typo]] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = ()
    ambiguous: Mapping[int, tuple[Candidate, ...]] = field(default_factory=dict)
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Speller:
    """Correct spelling against ``names``, the words of all names; words of ``english`` count as spelled correctly."""

    matcher: Matcher
    names: Vocabulary
    english: Vocabulary

    def read(
        self, text: str, tokens: list[Token], used_spans: Iterable[tuple[int, int]], kinds: Kinds
    ) -> SpellingResult:
        """Correct at most 16 unknown words outside ``used_spans``; ``left_out`` counts those beyond."""
        unknown = list(self._unknown(text, tokens, list(used_spans)))
        slips: dict[int, Sequence[Typo]] = {}
        by_word: dict[str, list[Typo]] = {}
        for position in unknown[:MAX_UNKNOWN]:
            word = tokens[position].text
            if word not in by_word:
                by_word[word] = self.names.typo_candidates(word)
            slips[position] = by_word[word]
        base = list(tokens)
        for position, found in slips.items():
            if len(found) == 1:
                base = _with(base, position, found[0].word)
        read = SpellingResult(base, slips, left_out=max(0, len(unknown) - MAX_UNKNOWN))
        return self._with_names(text, tokens, read, kinds)

    def accepts(self, candidate: Candidate, tokens: Sequence[Token], slips: Mapping[int, Sequence[Typo]]) -> bool:
        """Return True if enough of the name is in the text as written (``tokens``) to take the rest for a typo."""
        stretch, posting, _ = candidate
        # Another name of many is near most words.
        if posting.flags & ALIAS and posting.flags & (SYNONYM | CLAIM) and stretch.last - stretch.first == 1:
            return False
        if posting.flags & (SYMBOL | COMPACT) or is_generic(stretch.folded) or is_kind_word(stretch.folded):
            return False
        positions = range(stretch.first, stretch.last)
        found = [
            slip
            for position in positions
            for slip in slips.get(position, ())
            if slip.word == stretch.tokens[position].text != tokens[position].text
        ]
        if not found:
            return False
        same_words = (tokens[place].text for place in positions if stretch.tokens[place].text == tokens[place].text)
        if any(word.isalpha() and len(word) > 2 for word in same_words):
            return True
        kind = self.matcher.table.kind_names[posting.kind].casefold()
        least = _LEAST_OF_SUBSTANCES if any(name in kind for name in _SUBSTANCES) else _LEAST_ALONE
        return all(slip.sort in least and len(slip.word) >= least[slip.sort] for slip in found)

    def _unknown(self, text: str, tokens: list[Token], used_spans: list[tuple[int, int]]) -> Iterator[int]:
        words = [token.text for token in tokens]
        known = [one or other for one, other in zip(self.names.has(words), self.english.has(words), strict=True)]
        for position, token in enumerate(tokens):
            free = not any(token.start < end and start < token.end for start, end in used_spans)
            if free and not known[position] and not _is_symbol(text, token):
                yield position

    def _with_names(self, text: str, tokens: list[Token], read: SpellingResult, kinds: Kinds) -> SpellingResult:
        candidates: list[Candidate] = []
        ambiguous: dict[int, tuple[Candidate, ...]] = {}
        inverted = list(self.matcher.inverted(text, read.tokens, kinds)) if any(read.slips.values()) else []
        for position, slips in read.slips.items():
            found = [one for one in inverted if _covers(one, position)]
            for slip in slips if len(slips) <= _MAX_SLIPS else ():
                tried = _with(read.tokens, position, slip.word)
                around = range(max(0, position - _REACH), min(len(tokens), position + _REACH + 1))
                found.extend(one for one in self.matcher.within(text, tried, around, kinds) if _covers(one, position))
            found = [one for one in found if self.accepts(one, tokens, read.slips)]
            most = max((one.stretch.letters for one in found), default=0)
            best = {one.posting.node: one for one in found if one.stretch.letters == most}
            if len(best) > 1:
                ambiguous[position] = tuple(best.values())
            candidates.extend(best.values() if len(best) == 1 else ())
        return SpellingResult(read.tokens, read.slips, tuple(candidates), ambiguous, read.left_out)


def _covers(candidate: Candidate, position: int) -> bool:
    return candidate.stretch.first <= position < candidate.stretch.last


def _is_symbol(text: str, token: Token) -> bool:
    """Return True for a token beside a digit, or a short one in capitals while the text is not."""
    sides = text[max(0, token.start - 1) : token.start] + text[token.end : token.end + 1]
    raw = text[token.start : token.end]
    return any(c.isdigit() for c in sides) or (len(raw) <= _MOST_SYMBOL and raw.isupper() and not text.isupper())


def _with(tokens: list[Token], position: int, word: str) -> list[Token]:
    """Replace one token, and convert the roman numeral after it if the new word requires a number.

    "comlpex I" becomes "complex 1".
    """
    changed = list(tokens)
    changed[position] = tokens[position]._replace(text=word)
    if position + 1 < len(tokens):
        changed[position + 1] = tokens[position + 1]._replace(text=numeral(tokens[position + 1].text, word))
    return changed


@dataclass(frozen=True, slots=True)
class WordBreaks:
    """Undo wrong word breaks: "hypo thyroidism" is hypothyroidism, "breastcancer" is breast cancer.

    The two pieces of a split word keep their characters, so that no name within the written word counts as a
    whole word.
    """

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
