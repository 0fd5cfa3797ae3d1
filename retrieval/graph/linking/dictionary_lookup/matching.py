"""Match the names of a graph to the tokens of a text, and complete the names of a coordination.

``dictionary`` selects among the matches. A coordination gives breast cancer of "breast and ovarian cancer" and type 1
diabetes of "type 1 or 2 diabetes".
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from retrieval.graph.linking.dictionary_lookup.ambiguity import TokenSpan, is_meant
from retrieval.graph.linking.dictionary_lookup.names import (
    ALIAS,
    CLAIM,
    SYMBOL,
    SYNONYM,
    NameTable,
    Posting,
    written_hash,
)
from retrieval.graph.linking.dictionary_lookup.normalize import Token, gap_before, hash_tokens, window_hashes

_AND: Final = frozenset(("and", "or"))
_STOPS: Final = frozenset(".?!;:")
_MOST_LISTS: Final = 64
_MOST_ITEM: Final = 3
_MOST_SKIPPED: Final = 5
_MOST_SHARED: Final = 5
# Kinds whose names are ordinary words in their ordinary sense, as "depression" is; the gene or compound "lead" is not.
_CLINICAL: Final = ("disease", "phenotype", "symptom", "effect")
SUBSTANCES: Final = ("compound", "drug", "chemical", "molecule", "gene", "protein", "variant", "nutrient")
# Preference among the kinds of an ambiguous name if the text does not name the kind.
_KIND_ORDER: Final = ("disease", "gene", "compound", "drug", "symptom", "phenotype", "pathway", "anatomy", "variant")
# Limit on the nodes examined for one name; in graphs of many organisms a protein's name has thousands.
_MAX_POSTINGS: Final = 1_024
Kinds = frozenset[str] | None


class Candidate(NamedTuple):
    """Pair a span of tokens with the name that it matches.

    ``tied``: another node matches equally well. ``slips``: number of words that are read otherwise than written.
    """

    stretch: TokenSpan
    posting: Posting
    tied: bool
    slips: int = 0


def are_joined(one: TokenSpan, other: TokenSpan) -> bool:
    """Return True if an "and" or "or" alone stands between two windows."""
    first, second = sorted((one, other), key=lambda stretch: stretch.first)
    between = first.tokens[first.last : second.first]
    return bool(between) and all(token.text in _AND for token in between)


def completed(text: str, tokens: Sequence[Token]) -> Iterator[TokenSpan]:
    """Yield the items of coordinations, each with the words that it shares with the others."""
    joints = [place for place in range(1, len(tokens)) if _is_joint(text, tokens, place)]
    for place in joints[:_MOST_LISTS]:
        end, begin = place, place + (tokens[place].text in _AND)
        yield from _by_ending(text, tokens, end, begin)
        yield from _by_beginning(text, tokens, end, begin)


def _is_joint(text: str, tokens: Sequence[Token], place: int) -> bool:
    return tokens[place].text in _AND or gap_before(text, tokens, place).strip() in (",", "/", "&")


def _by_ending(text: str, tokens: Sequence[Token], end: int, begin: int) -> Iterator[TokenSpan]:
    """Yield the items before a joint with the last words of a later item: "breast" with "cancer".

    A comma alone joins only in a list that has an "and".
    """
    is_open = begin < len(tokens) and text[tokens[end - 1].end : tokens[begin].start].strip() != ","
    for shared in range(begin + 1, min(len(tokens), begin + 1 + _MOST_SKIPPED)):
        gap = gap_before(text, tokens, shared)
        if not _STOPS.isdisjoint(gap):
            break
        is_open = is_open or tokens[shared - 1].text in _AND
        if not is_open or not gap or not tokens[shared].text.isalpha():
            continue
        for last in range(shared + 1, min(len(tokens), shared + _MOST_SHARED) + 1):
            for first in range(end - 1, max(-1, end - 1 - _MOST_ITEM), -1):
                yield _span(text, tokens, (first, end), (*tokens[first:end], *tokens[shared:last]))


def _by_beginning(text: str, tokens: Sequence[Token], end: int, begin: int) -> Iterator[TokenSpan]:
    """Yield numbers or letters behind a joint with the words before the first of them: "2" with "type"."""
    start = end
    while start and (tokens[start - 1].text in _AND or _is_marker(tokens[start - 1])):
        start -= 1
    if start == end or begin == len(tokens) or not _is_marker(tokens[begin]):
        return
    if text[tokens[begin].start].isupper() != text[tokens[start].start].isupper():
        return  # the second "a" of "hepatitis B or a cold" is an article
    for last in range(begin + 1, min(len(tokens), begin + _MOST_ITEM) + 1):
        for first in range(start - 1, max(-1, start - 1 - _MOST_SHARED), -1):
            yield _span(text, tokens, (begin, last), (*tokens[first:start], *tokens[begin:last]))


def _is_marker(token: Token) -> bool:
    return token.text.isdigit() or len(token.text) == 1


def _span(text: str, tokens: Sequence[Token], own: tuple[int, int], words: Sequence[Token]) -> TokenSpan:
    return TokenSpan(text, tokens, *own, tuple(token.text for token in words))


def _preference(kind: str) -> int:
    return _KIND_ORDER.index(kind.casefold()) if kind.casefold() in _KIND_ORDER else len(_KIND_ORDER)


@dataclass(frozen=True, slots=True)
class Matcher:
    """Match names to spans of tokens."""

    table: NameTable

    def candidates(self, text: str, tokens: Sequence[Token], kinds: Kinds) -> Iterator[Candidate]:
        """Yield every plausible name, including overlapping ones."""
        yield from self.within(text, tokens, range(len(tokens)), kinds)
        spans = list(completed(text, tokens))
        firsts, lasts = self.table.ranges(np.array([hash_tokens(span.words) for span in spans], np.uint64))
        for index in np.nonzero(lasts > firsts)[0].tolist():
            found = self.best(spans[index], int(firsts[index]), int(lasts[index]), kinds, anything=True)
            if found is not None and spans[index].is_whole:
                yield found

    def within(self, text: str, tokens: Sequence[Token], positions: range, kinds: Kinds) -> Iterator[Candidate]:
        """Yield the candidates whose words are contiguous at ``positions``."""
        part = [tokens[place].text for place in positions]
        for length, hashes in window_hashes(part, self.table.longest):
            firsts, lasts = self.table.ranges(hashes)
            for offset in np.nonzero(lasts > firsts)[0].tolist():
                first = positions.start + offset
                stretch = TokenSpan(text, tokens, first, first + length, tuple(part[offset : offset + length]))
                if stretch.is_whole and (found := self.best(stretch, int(firsts[offset]), int(lasts[offset]), kinds)):
                    yield found

    def best(
        self, stretch: TokenSpan, first: int, last: int, kinds: Kinds, *, anything: bool = False
    ) -> Candidate | None:
        """Return the best of the table's rows ``first`` up to ``last`` - 1.

        With ``anything``, its words alone make a row match.
        """
        raw, before = unicodedata.normalize("NFKC", stretch.raw), stretch.before()
        hashes = {SYMBOL: written_hash(raw, SYMBOL), 0: written_hash(raw, 0)}
        ranked: list[tuple[tuple[int, ...], Posting]] = []
        for posting in self.table.postings(first, min(last, first + _MAX_POSTINGS)):
            kind, is_symbol = self.table.kind(posting.node), posting.flags & SYMBOL
            # "Gene NF1" is not the disease of that abbreviation.
            is_disease = is_symbol and before == "gene" and "gene" not in kind.casefold()
            if (kinds is not None and kind not in kinds) or is_disease:
                continue
            as_written = posting.written == hashes[is_symbol]
            if anything or is_meant(stretch, posting.flags, as_written, self.is_clinical(posting)):
                rank = (
                    posting.node >= self.table.nodes_known,
                    kind.casefold() != before,
                    not as_written,
                    bool(posting.flags & ALIAS) + 2 * bool(posting.flags & SYNONYM) + 4 * bool(posting.flags & CLAIM),
                )
                ranked.append(((*rank, _preference(kind), posting.node), posting))
        if not ranked:
            return None
        ranked.sort()
        best, posting = ranked[0]
        tied = any(rank[:-2] == best[:-2] and other.node != posting.node for rank, other in ranked[1:])
        return Candidate(stretch, posting, tied)

    def is_clinical(self, posting: Posting) -> bool:
        """Return True for a disease, a symptom and their like."""
        return self.is_of(posting, _CLINICAL)

    def is_of(self, posting: Posting, kinds: Sequence[str]) -> bool:
        """Return True if the kind's name contains one of ``kinds``, in small letters."""
        name = self.table.kind(posting.node).casefold()
        return any(kind in name for kind in kinds)
