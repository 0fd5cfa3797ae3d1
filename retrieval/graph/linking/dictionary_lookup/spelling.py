"""Read words that are in no name and not English as ones that are: with a slip, broken in two, or two joined.

Another reading counts only if it completes a name, and the name with the most letters wins: "rheumtaoid arthritis" does
not match arthritis alone. If two names are equally near, neither is accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from retrieval.formats.edits import single_edits
from retrieval.graph.linking.dictionary_lookup.ambiguity import is_generic
from retrieval.graph.linking.dictionary_lookup.matching import SUBSTANCES, Candidate, Kinds, Matcher
from retrieval.graph.linking.dictionary_lookup.names import ALIAS, CLAIM, SYMBOL, SYNONYM, is_english, is_indexable
from retrieval.graph.linking.dictionary_lookup.normalize import Token, fold, gap_before

_MAX_UNKNOWN: Final = 16
_MAX_READINGS: Final = 12
_REACH: Final = 12
# Letters of a name that is read otherwise than written.
_LEAST_ALONE: Final = 6
_MOST_SYMBOL: Final = 7
_LEAST_PIECE: Final = 3


class Reading(NamedTuple):
    """Hold the tokens of a text with those from ``first`` up to ``last`` - 1 read otherwise."""

    tokens: list[Token]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Corrections:
    """Hold the names that other readings of a text give; ``ambiguous``: equally near names, by word."""

    candidates: Sequence[Candidate] = ()
    ambiguous: Sequence[Sequence[Candidate]] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Speller:
    """Correct spelling by the words of all names."""

    matcher: Matcher

    def read(self, text: str, tokens: list[Token], used_spans: Sequence[tuple[int, int]], kinds: Kinds) -> Corrections:
        """Read words outside ``used_spans`` otherwise: at most 16 unknown ones, and two that may be one."""
        free = [not any(token.start < end and start < token.end for start, end in used_spans) for token in tokens]
        unknown = [place for place in self._unknown(text, tokens) if free[place]]
        near = {place: self._near(tokens[place].text) for place in unknown[:_MAX_UNKNOWN]}
        base = list(tokens)
        for place, words in near.items():
            if len(words) == 1:
                base = _with(base, place, words[0])
        readings = {
            place: [*_respelled(base, place, words), *self._parted(text, base, place)] for place, words in near.items()
        }
        for joined in self._joined(text, base):
            if free[joined.first]:
                readings.setdefault(joined.first, []).append(joined)
        written = {(token.start, token.end): token.text for token in tokens}
        best = [self._best(text, others, written, kinds) for others in readings.values()]
        notes = []
        if len(unknown) > _MAX_UNKNOWN:
            notes = [f"only the first {_MAX_UNKNOWN} unknown words were looked at for slips of the pen"]
        return Corrections([one[0] for one in best if len(one) == 1], [one for one in best if len(one) > 1], notes)

    def _unknown(self, text: str, tokens: Sequence[Token]) -> Iterator[int]:
        known = self.matcher.table.words.has([token.text for token in tokens])
        for place, token in enumerate(tokens):
            if not known[place] and not is_english(token.text) and not _is_symbol(text, token):
                yield place

    def _near(self, word: str) -> list[str]:
        """Return the words of names that are one slip away, or sound alike: an "f" for a "ph"."""
        heard = (f"{word[:place]}ph{word[place + 1 :]}" for place, letter in enumerate(word) if letter == "f")
        return self._of_names(sorted({*single_edits(word), *heard} - {word}))

    def _of_names(self, words: Iterable[str]) -> list[str]:
        words = [word for word in words if is_indexable(word)]
        return [word for word, has in zip(words, self.matcher.table.words.has(words), strict=True) if has]

    def _parted(self, text: str, tokens: list[Token], place: int) -> Iterator[Reading]:
        """Yield the token as two: "breastcancer" is breast cancer."""
        token = tokens[place]
        # Where British spelling is normalized, the characters of the pieces are not known.
        if text[token.start : token.end].casefold() != token.text:
            return
        for cut in range(_LEAST_PIECE, len(token.text) - _LEAST_PIECE + 1):
            pieces = token.text[:cut], token.text[cut:]
            if len(self._of_names(pieces)) == len(pieces):
                middle = token.start + cut
                parts = (Token(pieces[0], token.start, middle), Token(pieces[1], middle, token.end))
                yield Reading([*tokens[:place], *parts, *tokens[place + 1 :]], place, place + 2)

    def _joined(self, text: str, tokens: list[Token]) -> Iterator[Reading]:
        """Yield two tokens as one: "hypo thyroidism" is hypothyroidism."""
        for place, (one, other) in enumerate(pairwise(tokens)):
            pieces = one.text, other.text
            if all(map(is_english, pieces)) or min(map(len, pieces)) < _LEAST_PIECE:
                continue
            words = fold(text[one.start : one.end] + text[other.start : other.end])
            if gap_before(text, tokens, place + 1) in (" ", "-") and len(words) == 1 and self._of_names(words):
                whole = Token(words[0], one.start, other.end)
                yield Reading([*tokens[:place], whole, *tokens[place + 2 :]], place, place + 1)

    def _best(
        self, text: str, readings: Iterable[Reading], written: Mapping[tuple[int, int], str], kinds: Kinds
    ) -> Sequence[Candidate]:
        """Return the acceptable names with the most letters, one of each node."""
        found: list[Candidate] = []
        for tokens, first, last in readings:
            around = range(max(0, first - _REACH), min(len(tokens), last + _REACH))
            names = self.matcher.within(text, tokens, around, kinds)
            covering = (one for one in names if one.stretch.first <= first and last <= one.stretch.last)
            found.extend(one._replace(slips=self._slips(one, written)) for one in covering)
        found = [one for one in found if one.slips]
        most = max((one.stretch.end - one.stretch.start for one in found), default=0)
        longest = [one for one in found if one.stretch.end - one.stretch.start == most]
        return list({one.posting.node: one for one in longest}.values())

    def _slips(self, candidate: Candidate, written: Mapping[tuple[int, int], str]) -> int:
        """Return how many words of a name are read otherwise than ``written``, 0 if too little of it is left."""
        stretch, posting = candidate.stretch, candidate.posting
        if posting.flags & SYMBOL or sum(map(len, stretch.words)) < _LEAST_ALONE or is_generic(stretch.words):
            return 0
        # Another name of many is near most words.
        if posting.flags & ALIAS and posting.flags & (SYNONYM | CLAIM) and len(stretch.words) == 1:
            return 0
        own = [token for token in stretch.tokens[stretch.first : stretch.last] if not token.text.isdigit()]
        changed = [token for token in own if written.get((token.start, token.end)) != token.text]
        if any(token not in changed and is_indexable(token.text) for token in own):
            return len(changed)
        is_other = _is_other_ending if not self.matcher.is_of(posting, SUBSTANCES) else _is_other_letter
        pairs = ((token.text, written.get((token.start, token.end), "")) for token in changed)
        return 0 if any(is_other(*pair) for pair in pairs) else len(changed)


def _is_other_ending(word: str, written: str) -> bool:
    """Return True for words with different last letters: psoriasin, psoriasis."""
    return len(word) == len(written) and word[:-1] == written[:-1]


def _is_other_letter(word: str, written: str) -> bool:
    """Return True for words with one different letter, as substances often have: amatoxin, agatoxin."""
    return len(word) == len(written) and sorted(word) != sorted(written)


def _is_symbol(text: str, token: Token) -> bool:
    """Return True for a token beside a digit, or a short one with a capital within while the text has small letters."""
    sides = text[max(0, token.start - 1) : token.start] + text[token.end : token.end + 1]
    raw = text[token.start : token.end]
    has_capital = len(raw) <= _MOST_SYMBOL and any(c.isupper() for c in raw[1:])
    return any(c.isdigit() for c in sides) or (has_capital and not text.isupper())


def _respelled(tokens: list[Token], place: int, words: Sequence[str]) -> Iterator[Reading]:
    for word in words if len(words) <= _MAX_READINGS else ():
        yield Reading(_with(tokens, place, word), place, place + 1)


def _with(tokens: list[Token], place: int, word: str) -> list[Token]:
    return [*tokens[:place], tokens[place]._replace(text=word), *tokens[place + 1 :]]
