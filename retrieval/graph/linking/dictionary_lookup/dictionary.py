"""Find the names of a graph in a text: the longest ones, without overlaps, in microseconds and without a model."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

import numpy as np

from retrieval.graph.base import GraphStore, NameOf
from retrieval.graph.linking.dictionary_lookup.abbreviations import ABBREVIATIONS, EVERYDAY
from retrieval.graph.linking.dictionary_lookup.matching import Candidate, IdentifierFinder, Matcher
from retrieval.graph.linking.dictionary_lookup.name_table import (
    ALIAS,
    SYNONYM,
    VARIANT,
    NameTable,
    Posting,
    TableBuilder,
)
from retrieval.graph.linking.dictionary_lookup.normalize import (
    Token,
    fold,
    hash_text,
    hash_tokens,
    surface,
    tokens_of,
    variants,
)
from retrieval.graph.linking.dictionary_lookup.spans import UnknownWord, filter_ambiguous, word_at
from retrieval.graph.linking.dictionary_lookup.spelling import MAX_UNKNOWN, Speller, SpellingResult
from retrieval.graph.linking.dictionary_lookup.symbols import TokenSpan, is_generic, is_modified, name_flags
from retrieval.graph.linking.dictionary_lookup.vocabulary import build_vocabulary, is_indexable, ordinary_words
from retrieval.graph.linking.types import choices_start
from retrieval.graph.types import Mention

MAX_TOKENS: Final = 4_000
# Preference among the kinds of an ambiguous name if the text does not name the kind.
_KIND_ORDER: Final = ("disease", "gene", "compound", "drug", "symptom", "phenotype", "pathway", "anatomy", "variant")
# Shorter words are symbols more often than typos.
_LEAST_UNKNOWN: Final = 4
# Kinds whose names are ordinary words in their ordinary sense, as "depression" is; the gene or compound "lead" is not.
_CLINICAL: Final = ("disease", "phenotype", "symptom", "effect")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedText:
    """Hold the result of reading a text.

    ``mentions`` in the text's order. ``unknown``: words that are in no name, not English, and outside all mentions.
    ``refused``: character ranges of names that were rejected as doubtful. ``notes``: these rejections, and corrections
    of spelling.
    """

    mentions: tuple[Mention, ...]
    unknown: tuple[UnknownWord, ...] = ()
    refused: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Find names in texts, from any thread; made by ``build_dictionary``."""

    store: GraphStore
    matcher: Matcher
    speller: Speller
    identifiers: IdentifierFinder = field(repr=False)

    @property
    def table(self) -> NameTable:
        return self.matcher.table

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of the nodes that have a name."""
        return self.table.kind_names

    def find(self, text: str, kinds: frozenset[str] | None = None) -> tuple[Mention, ...]:
        """Return the mentions of ``read``."""
        return self.read(text, kinds).mentions

    def read(self, text: str, kinds: frozenset[str] | None = None) -> LinkedText:
        """Read a text, up to its first 4,000 tokens.

        A generic name ("disease") is found only if there is no other, and not if the word before it specifies it
        ("keratinocyte carcinoma" is no "carcinoma"). ``margin`` is 0.0 if several nodes have the name equally and the
        text does not decide. Answer options are read without spelling correction.
        """
        by_id = self.identifiers.find(text, kinds)
        tokens = tokens_of(text)[:MAX_TOKENS]
        id_spans = [(mention.start, mention.end) for mention in by_id]
        respelled = self.speller.read(text, tokens, [*id_spans, (choices_start(text), len(text))], kinds)
        candidates = [
            candidate
            for candidate in (*self.matcher.candidates(text, tokens, kinds), *respelled.candidates)
            if not any(candidate.stretch.start < end and start < candidate.stretch.end for start, end in id_spans)
        ]
        chosen = list(_longest(candidates))
        unknown = tuple(self._unknown(text, tokens, respelled, chosen))
        accepted, notes = filter_ambiguous(text, chosen, unknown, self._is_word)
        refused = tuple((one.stretch.start, one.stretch.end) for one in chosen if one not in accepted)
        chosen = accepted
        shared = self.matcher.shared(text, respelled.tokens, chosen, kinds)
        chosen.extend([one for one in shared if self._stands(one, tokens, respelled)])
        spelled = {(one.stretch.start, one.stretch.end): _slips(one, tokens) for one in chosen}
        mentions = [_as_read(text, mention, spelled) for mention in self._mentions(chosen)]
        notes = [*_corrections(text, mentions), *self._ties(respelled), *notes]
        if respelled.left_out:
            notes.append(f"only the first {MAX_UNKNOWN} unknown words were looked at for slips of the pen")
        ordered = sorted(_specific(text, [*by_id, *mentions]), key=lambda mention: mention.start)
        return LinkedText(mentions=tuple(ordered), unknown=unknown, refused=refused, notes=tuple(notes))

    def broader(self, text: str, mention: Mention) -> Mention | None:
        """Return the longest other name with which the mention's own words begin or end.

        For "Fanconi anemia, complementation group D2" it is Fanconi anemia. Used for nodes too specific to have
        statements. Lay terms are excluded: the meaning of "diabetes" alone is not that of "diabetes insipidus".
        """
        part = text[mention.start : mention.end]
        tokens = tokens_of(part)
        inner = [
            candidate
            for candidate in self.matcher.candidates(part, tokens, frozenset({mention.node.kind}))
            if (candidate.stretch.first == 0) != (candidate.stretch.last == len(tokens))
            and not is_generic(candidate.stretch.folded)
            and not candidate.posting.flags & ALIAS
        ]
        found = next(self._mentions(_longest(inner)), None)
        if found is None or found.node.node_id == mention.node.node_id:
            return None
        return replace(found, start=found.start + mention.start, end=found.end + mention.start)

    def look_up(self, name: str, kinds: frozenset[str] | None = None) -> Mention | None:
        """Return the node that has the whole of ``name`` as a name, however short or generic."""
        tokens = tokens_of(name)
        if not tokens or len(tokens) > self.table.longest:
            return None
        key = np.array([hash_tokens([token.text for token in tokens])], np.uint64)
        firsts, lasts = self.table.ranges(key)
        stretch = TokenSpan(name, tokens, 0, len(tokens), all_caps=False)
        found = self.matcher.best(stretch, int(firsts[0]), int(lasts[0]), kinds, anything=True)
        return next(self._mentions([found] if found else []), None)

    def _unknown(
        self, text: str, tokens: list[Token], read: SpellingResult, chosen: list[Candidate]
    ) -> Iterator[UnknownWord]:
        covered = {position for one in chosen for position in range(one.stretch.first, one.stretch.last)}
        for position, slips in read.slips.items():
            if position in covered or len(tokens[position].text) < _LEAST_UNKNOWN:
                continue
            at = word_at(text, position, tokens[position])
            if position in read.ambiguous:
                yield UnknownWord(*at, why="ambiguous")
            elif near := slips[0].word if slips else self.speller.names.resembles(tokens[position].text):
                yield UnknownWord(*at, why="near", near=near)
            else:
                yield UnknownWord(*at, why="strange")

    def _is_word(self, candidate: Candidate) -> bool:
        kind = self.table.kind_names[candidate.posting.kind].casefold()
        words = candidate.stretch.folded
        return len(words) == 1 and not any(name in kind for name in _CLINICAL) and self.speller.english.has(words)[0]

    def _stands(self, candidate: Candidate, tokens: list[Token], read: SpellingResult) -> bool:
        return not _slips(candidate, tokens) or self.speller.accepts(candidate, tokens, read.slips)

    def _ties(self, read: SpellingResult) -> Iterator[str]:
        for candidates in read.ambiguous.values():
            names = dict.fromkeys(mention.node.name for mention in self._mentions(candidates))
            yield f'"{candidates[0].stretch.raw}" may be {" or ".join(names)}; neither was taken'

    def _mentions(self, candidates: Iterable[Candidate]) -> Iterator[Mention]:
        for stretch, posting, tied in candidates:
            node = self.store.node(self.table.node_id(posting.node))
            if node is not None:
                method = "synonym" if posting.flags & (SYNONYM | ALIAS) else "exact"
                margin = 0.0 if tied else 1.0
                yield Mention(node=node, start=stretch.start, end=stretch.end, method=method, margin=margin)


def build_dictionary(store: GraphStore, kinds: Iterable[str] | None = None) -> Dictionary:
    """Build a dictionary from one streaming pass over ``store.names``.

    Costs about 25 µs and 60 bytes a name (see ``NameTable.nbytes``), and another 150 bytes a node while it builds.
    """
    builder = TableBuilder()
    waiting = {tuple(fold(target)): target for target in chain(*ABBREVIATIONS.values(), *EVERYDAY.values())}
    targets: dict[str, tuple[int, Posting]] = {}
    vocabulary = {word for short in chain(ABBREVIATIONS, EVERYDAY) for word in fold(short)}
    for name in store.names(kinds):
        posting = _posting(builder, name)
        sequences = variants(name.name)
        vocabulary.update(word for tokens in sequences[:1] for word in tokens if is_indexable(word))
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
    matcher = Matcher(table, ranks, words)
    speller = Speller(matcher, build_vocabulary(vocabulary), ordinary_words())
    return Dictionary(store, matcher, speller, IdentifierFinder(store, table.kind_names))


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


def _specific(text: str, mentions: list[Mention]) -> list[Mention]:
    specific = [mention for mention in mentions if not is_generic(tuple(fold(text[mention.start : mention.end])))]
    return specific or [mention for mention in mentions if not is_modified(text, mention.start)]


def _longest(candidates: list[Candidate]) -> Iterator[Candidate]:
    """Yield non-overlapping candidates, preferring the one with the most letters and digits, then the first."""
    used: set[int] = set()
    for candidate in sorted(candidates, key=lambda found: (-found.stretch.letters, found.stretch.start)):
        positions = range(candidate.stretch.first, candidate.stretch.last)
        if used.isdisjoint(positions):
            used.update(positions)
            yield candidate


def _slips(candidate: Candidate, tokens: list[Token]) -> int:
    stretch = candidate.stretch
    positions = range(stretch.first, stretch.last)
    return sum(stretch.tokens[p].text != tokens[p].text for p in positions if not stretch.tokens[p].text.isdigit())


def _as_read(text: str, mention: Mention, slips: Mapping[tuple[int, int], int]) -> Mention:
    number = slips[mention.start, mention.end]
    if not number:
        return mention
    letters = sum(c.isalnum() for c in text[mention.start : mention.end])
    return replace(mention, method="spelling", score=1.0 - number / letters)


def _corrections(text: str, mentions: Iterable[Mention]) -> Iterator[str]:
    for mention in mentions:
        if mention.method == "spelling":
            yield f'"{text[mention.start : mention.end]}" was read as {mention.node.name}'
