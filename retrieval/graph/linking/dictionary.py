"""Names of a graph found in a text: the longest ones, without overlaps, in microseconds and without a model."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from retrieval.graph.base import GraphStore, NameOf
from retrieval.graph.linking.abbreviations import ABBREVIATIONS, EVERYDAY
from retrieval.graph.linking.folding import Token, fold, hash_text, hash_tokens, surface, tokens_of, window_hashes
from retrieval.graph.linking.identifiers import IdentifierFinder
from retrieval.graph.linking.inversion import Inversion, inversions, shared_endings
from retrieval.graph.linking.name_table import ALIAS, SYMBOL, SYNONYM, VARIANT, NameTable, Posting, TableBuilder
from retrieval.graph.linking.symbols import (
    Stretch,
    is_generic,
    is_kind_word,
    is_meant,
    is_modified,
    is_one_phrase,
    is_other,
    is_whole,
    name_flags,
)
from retrieval.graph.linking.variants import variants
from retrieval.graph.types import Mention

MAX_TOKENS: Final = 4_000
# Nodes of one name that are looked at; in graphs of many organisms a protein's name has thousands.
_MAX_POSTINGS: Final = 1_024
# Mentions whose words before an "and" are looked at.
_MAX_SHARED: Final = 64
# Where one name is of several kinds and the text does not say which, the first of these is taken.
_KIND_ORDER: Final = ("disease", "gene", "compound", "drug", "symptom", "phenotype", "pathway", "anatomy", "variant")


class _Candidate(NamedTuple):
    stretch: Stretch
    posting: Posting
    tied: bool


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Made by ``build_dictionary``. Safe from many threads."""

    store: GraphStore
    table: NameTable
    kind_ranks: tuple[int, ...]
    kind_words: dict[str, int]
    identifiers: IdentifierFinder = field(repr=False)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of nodes that have a name."""
        return self.table.kind_names

    def find(self, text: str, kinds: frozenset[str] | None = None) -> tuple[Mention, ...]:
        """In the text's order. Characters beyond the first 4,000 tokens are not looked at.

        A generic name ("disease") is found only where nothing else is, and not where a word before it makes it
        another ("keratinocyte carcinoma" is no "carcinoma"). ``margin`` is 0.0 where several nodes have the
        name equally and nothing in the text decides.
        """
        by_id = self.identifiers.find(text, kinds)
        tokens = tokens_of(text)[:MAX_TOKENS]
        taken = [(mention.start, mention.end) for mention in by_id]
        candidates = [
            candidate
            for candidate in self._candidates(text, tokens, kinds)
            if not any(candidate.stretch.start < end and start < candidate.stretch.end for start, end in taken)
        ]
        chosen = list(_longest(candidates))
        chosen.extend(list(self._shared(text, tokens, chosen, kinds)))
        mentions = [*by_id, *self._mentions(chosen)]
        return tuple(sorted(_telling(text, mentions), key=lambda mention: mention.start))

    def broader(self, text: str, mention: Mention) -> Mention | None:
        """The longest other name with which the mention's own words begin or end: of "Fanconi anemia, complementation
        group D2" Fanconi anemia. For nodes too special to have statements. Everyday names are none: what "diabetes"
        stands for alone is not what "diabetes insipidus" is."""
        part = text[mention.start : mention.end]
        tokens = tokens_of(part)
        inner = [
            candidate
            for candidate in self._candidates(part, tokens, frozenset({mention.node.kind}))
            if (candidate.stretch.first == 0) != (candidate.stretch.last == len(tokens))
            and not is_generic(candidate.stretch.folded)
            and not candidate.posting.flags & ALIAS
        ]
        found = next(self._mentions(_longest(inner)), None)
        if found is None or found.node.node_id == mention.node.node_id:
            return None
        return replace(found, start=found.start + mention.start, end=found.end + mention.start)

    def look_up(self, name: str, kinds: frozenset[str] | None = None) -> Mention | None:
        """The node that the whole of ``name`` is a name of; nothing is too short or too generic here."""
        tokens = tokens_of(name)
        if not tokens or len(tokens) > self.table.longest:
            return None
        key = np.array([hash_tokens([token.text for token in tokens])], np.uint64)
        firsts, lasts = self.table.ranges(key)
        stretch = Stretch(name, tokens, 0, len(tokens), shouting=False)
        found = self._best(stretch, int(firsts[0]), int(lasts[0]), kinds, anything=True)
        return next(self._mentions([found] if found else []), None)

    def _candidates(self, text: str, tokens: list[Token], kinds: frozenset[str] | None) -> Iterator[_Candidate]:
        shouting = text.upper() == text
        for length, hashes in window_hashes([token.text for token in tokens], self.table.longest):
            firsts, lasts = self.table.ranges(hashes)
            for place in np.nonzero(lasts > firsts)[0].tolist():
                stretch = Stretch(text, tokens, place, place + length, shouting)
                if not _stands_alone(stretch) or is_kind_word(stretch.folded):
                    continue
                found = self._best(stretch, int(firsts[place]), int(lasts[place]), kinds)
                if found is not None:
                    yield found
        yield from self._inverted(text, tokens, kinds, shouting)

    def _inverted(
        self, text: str, tokens: list[Token], kinds: frozenset[str] | None, shouting: bool
    ) -> Iterator[_Candidate]:
        return self._known(text, tokens, inversions(text, tokens), kinds, shouting)

    def _shared(
        self, text: str, tokens: list[Token], chosen: list[_Candidate], kinds: frozenset[str] | None
    ) -> Iterator[_Candidate]:
        taken = [(one.stretch.first, one.stretch.last) for one in chosen]
        for one in chosen[:_MAX_SHARED]:
            parts = [
                part
                for part in shared_endings(text, tokens, one.stretch.first, one.stretch.last)
                if not any(part.first < end and start < part.last for start, end in taken)
            ]
            found = max(
                self._known(text, tokens, parts, kinds, shouting=False),
                key=lambda candidate: candidate.stretch.letters,
                default=None,
            )
            if found is not None:
                taken.append((found.stretch.first, found.stretch.last))
                yield found

    def _known(
        self,
        text: str,
        tokens: list[Token],
        parts: Iterable[Inversion],
        kinds: frozenset[str] | None,
        shouting: bool,
    ) -> Iterator[_Candidate]:
        parts = list(parts)
        firsts, lasts = self.table.ranges(np.array([hash_tokens(part.folded) for part in parts], np.uint64))
        for place in np.nonzero(lasts > firsts)[0].tolist():
            stretch = Stretch(text, tokens, parts[place].first, parts[place].last, shouting)
            found = (
                self._best(stretch, int(firsts[place]), int(lasts[place]), kinds) if _stands_alone(stretch) else None
            )
            if found is not None:
                yield found

    def _best(
        self, stretch: Stretch, first: int, last: int, kinds: frozenset[str] | None, *, anything: bool = False
    ) -> _Candidate | None:
        raw = stretch.raw
        cased, written = hash_text(unicodedata.normalize("NFKC", raw)), hash_text(surface(raw))
        said_gene = stretch.before() == "gene"
        cue = self.kind_words.get(stretch.before(), -1)
        ranked: list[tuple[tuple[int, ...], Posting]] = []
        for posting in self.table.postings(first, min(last, first + _MAX_POSTINGS)):
            if kinds is not None and self.table.kind_names[posting.kind] not in kinds:
                continue
            # "Gene NF1" is not the disease of that abbreviation.
            if posting.flags & SYMBOL and said_gene and "gene" not in self.table.kind_names[posting.kind].casefold():
                continue
            if not is_one_phrase(stretch, posting.written == written, bool(posting.flags & VARIANT)):
                continue
            same_case = posting.cased == cased
            if anything or is_meant(stretch, posting.flags, same_case):
                rank = (
                    int(posting.kind != cue) if cue >= 0 else 0,
                    int(not same_case) if posting.flags & SYMBOL else int(posting.written != written),
                    posting.flags & VARIANT,
                    2 if posting.flags & SYNONYM else 1 if posting.flags & ALIAS else 0,
                    int(not same_case),
                )
                ranked.append(((*rank, self.kind_ranks[posting.kind], posting.node), posting))
        if not ranked:
            return None
        ranked.sort()
        best, posting = ranked[0]
        tied = any(rank[:-2] == best[:-2] and other.node != posting.node for rank, other in ranked[1:])
        return _Candidate(stretch, posting, tied)

    def _mentions(self, candidates: Iterable[_Candidate]) -> Iterator[Mention]:
        for stretch, posting, tied in candidates:
            node = self.store.node(self.table.node_id(posting.node))
            if node is not None:
                method = "synonym" if posting.flags & (SYNONYM | ALIAS) else "exact"
                margin = 0.0 if tied else 1.0
                yield Mention(node=node, start=stretch.start, end=stretch.end, method=method, margin=margin)


def build_dictionary(store: GraphStore, kinds: Iterable[str] | None = None) -> Dictionary:
    """Reads ``store.names`` once, as a stream. About 25 µs and 60 bytes a name (``NameTable.nbytes`` tells), and while
    it builds about 150 bytes a node more."""
    builder = TableBuilder()
    waiting = {tuple(fold(target)): target for target in chain(*ABBREVIATIONS.values(), *EVERYDAY.values())}
    targets: dict[str, tuple[int, Posting]] = {}
    for name in store.names(kinds):
        posting = _posting(builder, name)
        sequences = variants(name.name)
        if not builder.counts(len(sequences[0]) if sequences else 0):
            continue
        for number, tokens in enumerate(sequences):
            flags = posting.flags | (VARIANT if number else 0)
            builder.add(hash_tokens(tokens), len(tokens), posting._replace(flags=flags))
            target = waiting.get(tokens)
            if target is not None:
                found = (2 * bool(number) + name.is_synonym, posting)
                targets[target] = min(targets.get(target, found), found)
    _add_aliases(builder, targets)
    table = builder.finish()
    known = [kind.casefold() for kind in table.kind_names]
    ranks = tuple(_KIND_ORDER.index(kind) if kind in _KIND_ORDER else len(_KIND_ORDER) for kind in known)
    words = {" ".join(fold(kind)): code for code, kind in enumerate(table.kind_names)}
    return Dictionary(store, table, ranks, words, IdentifierFinder(store, table.kind_names))


def _posting(builder: TableBuilder, name: NameOf) -> Posting:
    return Posting(
        node=builder.node(name.node_id),
        written=hash_text(surface(name.name)),
        cased=hash_text(unicodedata.normalize("NFKC", name.name)),
        kind=builder.kind(name.kind),
        flags=name_flags(name.name) | (SYNONYM if name.is_synonym else 0),
    )


def _add_aliases(builder: TableBuilder, targets: dict[str, tuple[int, Posting]]) -> None:
    folded = {tuple(fold(target)): found for target, found in targets.items()}
    for short, full in chain(ABBREVIATIONS.items(), EVERYDAY.items()):
        found = next((folded[key] for key in map(tuple, map(fold, full)) if key in folded), None)
        if found is None:
            continue
        tokens = fold(short)
        flags = ALIAS | (name_flags(short) if short in ABBREVIATIONS else 0)
        alias = _renamed(found[1], short, flags)
        builder.add(hash_tokens(tokens), len(tokens), alias)


def _renamed(posting: Posting, name: str, flags: int) -> Posting:
    return posting._replace(
        written=hash_text(surface(name)), cased=hash_text(unicodedata.normalize("NFKC", name)), flags=flags
    )


def _telling(text: str, mentions: list[Mention]) -> list[Mention]:
    telling = [mention for mention in mentions if not is_generic(tuple(fold(text[mention.start : mention.end])))]
    return telling or [mention for mention in mentions if not is_modified(text, mention.start)]


def _longest(candidates: list[_Candidate]) -> Iterator[_Candidate]:
    """Of those that overlap the one of the most letters and digits, then the first."""
    taken: set[int] = set()
    for candidate in sorted(candidates, key=lambda found: (-found.stretch.letters, found.stretch.start)):
        places = range(candidate.stretch.first, candidate.stretch.last)
        if taken.isdisjoint(places):
            taken.update(places)
            yield candidate


def _stands_alone(stretch: Stretch) -> bool:
    return is_whole(stretch) and not is_other(stretch)
