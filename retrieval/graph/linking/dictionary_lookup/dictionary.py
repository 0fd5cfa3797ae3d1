"""Find the names of a graph in a text: the longest ones, without overlaps, in microseconds and without a model.

Beside the graph's own names there may be those of a terminology (``terms``): the other names of its nodes, and names of
what it lacks, so that a step can say so, and no shorter name within such a name is taken for it. Short abbreviations
match in capitals only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np

from retrieval.graph.linking.dictionary_lookup.ambiguity import TokenSpan, is_generic, is_modified, name_flags
from retrieval.graph.linking.dictionary_lookup.candidate_filter import CandidateFilter, is_degree
from retrieval.graph.linking.dictionary_lookup.matching import Candidate, IdentifierFinder, Matcher, are_joined
from retrieval.graph.linking.dictionary_lookup.names import (
    ALIAS,
    CLASS,
    COMPACT,
    SYMBOL,
    SYNONYM,
    VARIANT,
    NameTable,
    Posting,
    TableBuilder,
    build_vocabulary,
    is_english,
    is_indexable,
    ordinary_words,
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
from retrieval.graph.linking.dictionary_lookup.spelling import (
    MAX_UNKNOWN,
    Speller,
    SpellingResult,
    WordBreaks,
    read_otherwise,
)
from retrieval.graph.linking.dictionary_lookup.terms import TermNames, with_terms
from retrieval.graph.types import GraphStore, Mention, NameOf, Node, choices_start

# Characters of a complex that is known without that word.
_LEAST_COMPLEX: Final = 4
MAX_TOKENS: Final = 4_000
# Preference among the kinds of an ambiguous name if the text does not name the kind.
_KIND_ORDER: Final = ("disease", "gene", "compound", "drug", "symptom", "phenotype", "pathway", "anatomy", "variant")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedText:
    """Hold the result of reading a text.

    ``mentions`` in the order of the text. ``classes`` of diseases beside another disease. ``concepts``: names of the
    terminology that no node has. ``notes``: names that were rejected, and corrections of spelling.
    """

    mentions: tuple[Mention, ...]
    classes: tuple[Mention, ...] = ()
    concepts: tuple[Mention, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Find names in texts, from any thread; made by ``build_dictionary``."""

    store: GraphStore
    matcher: Matcher
    speller: Speller
    identifiers: IdentifierFinder = field(repr=False)
    names: TermNames | None = field(default=None, repr=False)

    @property
    def table(self) -> NameTable:
        return self.matcher.table

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of the nodes that have a name."""
        return self.identifiers.kinds

    def is_ordinary(self, word: str) -> bool:
        """Return True for an English word, or a number, as ``fold`` normalizes its parts."""
        parts = fold(word)
        known = self.speller.english.has(parts)
        return all(part.isdigit() or has for part, has in zip(parts, known, strict=True))

    def find(self, text: str, kinds: frozenset[str] | None = None) -> tuple[Mention, ...]:
        """Return the mentions of ``read``."""
        return self.read(text, kinds).mentions

    def read(self, text: str, kinds: frozenset[str] | None = None) -> LinkedText:
        """Read a text, up to its first 4,000 tokens.

        A generic name ("disease") is found only if there is no other, and not if the word before it specifies it
        ("keratinocyte carcinoma" is no "carcinoma"); a class of diseases only beside no other disease. ``margin`` is
        0.0 if several nodes have the name equally and the text does not decide. Answer options are read without
        spelling correction.
        """
        by_id = self.identifiers.find(text, kinds)
        written = tokens_of(text)[:MAX_TOKENS]
        tokens = WordBreaks(self.table, self.speller.names, self.speller.english).mend(text, written)
        id_spans = [(mention.start, mention.end) for mention in by_id]
        respelled = self.speller.read(text, tokens, [*id_spans, (choices_start(text), len(text))], kinds)
        candidates = [
            candidate
            for candidate in (*self.matcher.candidates(text, tokens, kinds), *respelled.candidates)
            if not any(candidate.stretch.start < end and start < candidate.stretch.end for start, end in id_spans)
        ]
        found = list(_longest(self._without_degrees(candidates)))
        candidate_filter = CandidateFilter(self.matcher)
        meant = [one for one in found if not candidate_filter.is_another_word(one)]
        chosen, notes = candidate_filter.whole_names(meant)
        heads = [(one.stretch.first, one.stretch.last) for one in chosen]
        shared = self.matcher.shared(text, respelled.tokens, heads, list(heads), kinds)
        chosen.extend([one for one in shared if self._stands(one, tokens, respelled)])
        beside = self._classes_beside(chosen)
        spelled = {(one.stretch.start, one.stretch.end): _slips(one, tokens) for one in chosen}
        asked_for = [one for one in chosen if one not in beside]
        mentions = [_as_read(text, mention, spelled) for mention in self._mentions(asked_for)]
        concepts = sorted(
            (_as_read(text, mention, spelled) for mention in self._absent(chosen)), key=lambda mention: mention.start
        )
        notes = [
            *_corrections(text, mentions),
            *_mended(text, written, tokens, mentions),
            *self._ties(respelled),
            *notes,
            *(_absence(text, one) for one in concepts),
        ]
        if respelled.left_out:
            notes.append(f"only the first {MAX_UNKNOWN} unknown words were looked at for slips of the pen")
        return LinkedText(
            mentions=tuple(sorted(_specific(text, [*by_id, *mentions]), key=lambda mention: mention.start)),
            classes=tuple(self._mentions(one for one in beside if not is_generic(one.stretch.folded))),
            concepts=tuple(concepts),
            notes=tuple(notes),
        )

    def _without_degrees(self, candidates: list[Candidate]) -> list[Candidate]:
        """Return the candidates without those that are a node's name and words of degree or course before it.

        Metastatic melanoma is melanoma where the graph has no node of it.
        """
        known = {
            (one.stretch.first, one.stretch.last) for one in candidates if one.posting.node < self.table.nodes_known
        }
        return [
            one
            for one in candidates
            if one.posting.node < self.table.nodes_known
            or not any(
                one.stretch.first < first
                and last == one.stretch.last
                and is_degree(one.stretch.tokens[one.stretch.first : first])
                for first, last in known
            )
        ]

    def _classes_beside(self, chosen: list[Candidate]) -> list[Candidate]:
        """Return the classes of diseases beside another disease: what is asked is asked of that one.

        A class that an "and" joins to a disease is asked for as well.
        """
        classes = [one for one in chosen if one.posting.flags & CLASS]
        diseases = [
            one.stretch
            for one in chosen
            if one not in classes and self.matcher.is_clinical(one.posting) and not is_generic(one.stretch.folded)
        ]
        if not diseases:
            return []
        return [one for one in classes if not any(are_joined(one.stretch, other) for other in diseases)]

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

    def _stands(self, candidate: Candidate, tokens: list[Token], read: SpellingResult) -> bool:
        return not _slips(candidate, tokens) or self.speller.accepts(candidate, tokens, read.slips)

    def _ties(self, read: SpellingResult) -> Iterator[str]:
        for candidates in read.ambiguous.values():
            names = dict.fromkeys(mention.node.name for mention in self._mentions(candidates))
            yield f'"{candidates[0].stretch.raw}" may be {" or ".join(names)}; neither was taken'

    def _mentions(self, candidates: Iterable[Candidate]) -> Iterator[Mention]:
        for one in candidates:
            is_known = one.posting.node < self.table.nodes_known
            node = self.store.node(self.table.node_id(one.posting.node)) if is_known else None
            if node is not None:
                yield _mention(one, node)

    def _absent(self, candidates: Iterable[Candidate]) -> Iterator[Mention]:
        for one in candidates:
            concept = one.posting.node - self.table.nodes_known
            if self.names is not None and concept >= 0 and not is_generic(one.stretch.folded):
                yield _mention(one, self.names.node(concept))


def build_dictionary(store: GraphStore, names: TermNames | None = None) -> Dictionary:
    """Build a dictionary from one streaming pass over ``store.names``, with ``names`` beside them.

    Costs about 25 µs and 60 bytes a name (see ``NameTable.nbytes``), and another 150 bytes a node while it builds.
    """
    builder = TableBuilder()
    words: set[str] = set()
    for name in store.names():
        posting = _posting(builder, name)
        sequences = [*variants(name.name), *_without_kind(name)]
        words.update(word for tokens in sequences[:1] for word in tokens if is_indexable(word))
        if not builder.counts(len(sequences[0]) if sequences else 0):
            continue
        for number, tokens in enumerate(sequences):
            flags = posting.flags | (VARIANT if number else 0)
            builder.add(hash_tokens(tokens), len(tokens), posting._replace(flags=flags))
    node_kinds, table = builder.node_kinds, builder.finish()
    vocabulary, own_kinds = build_vocabulary(words), table.kind_names
    if names is not None:
        table, vocabulary = with_terms(table, node_kinds, names), vocabulary.joined(names.words)
    known = [kind.casefold() for kind in table.kind_names]
    ranks = tuple(_KIND_ORDER.index(kind) if kind in _KIND_ORDER else len(_KIND_ORDER) for kind in known)
    codes = {" ".join(fold(kind)): code for code, kind in enumerate(table.kind_names)}
    matcher = Matcher(table, ranks, codes)
    speller = Speller(matcher, vocabulary, ordinary_words())
    return Dictionary(store, matcher, speller, IdentifierFinder(store, own_kinds), names)


def _without_kind(name: NameOf) -> Iterator[tuple[str, ...]]:
    """Yield the name of a complex without that word: mTORC1 for "mTORC1 complex"."""
    *words, last = fold(name.name) or ("",)
    if last == name.kind.casefold() == "complex" and sum(map(len, words)) >= _LEAST_COMPLEX:
        yield tuple(words)


def _posting(builder: TableBuilder, name: NameOf) -> Posting:
    flags = name_flags(name.name)
    # A short name of a gene is a symbol, however its letters are written.
    if flags & COMPACT and len(name.name) > 1 and "gene" in name.kind.casefold():
        flags |= SYMBOL
    kind = builder.kind(name.kind)
    return Posting(
        node=builder.node(name.node_id, kind),
        written=hash_text(surface(name.name)),
        cased=hash_text(unicodedata.normalize("NFKC", name.name)),
        kind=kind,
        flags=flags | (SYNONYM if name.is_synonym else 0),
    )


def _mention(one: Candidate, node: Node) -> Mention:
    method: Literal["synonym", "exact"] = "synonym" if one.posting.flags & (SYNONYM | ALIAS) else "exact"
    margin = 0.0 if one.tied else 1.0
    return Mention(node=node, start=one.stretch.start, end=one.stretch.end, method=method, margin=margin)


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


def _absence(text: str, absent: Mention) -> str:
    name = text[absent.start : absent.end]
    if fold(name) == fold(absent.node.name):
        return f'"{name}" names no node of the graph'
    return f'"{name}" is {absent.node.name}, of which the graph has no node'


def _mended(text: str, written: list[Token], tokens: list[Token], mentions: Iterable[Mention]) -> Iterator[str]:
    spans = [(mention.start, mention.end) for mention in mentions]
    for start, end, words in read_otherwise(text, written, tokens):
        if any(start < last and first < end for first, last in spans):
            yield f'"{text[start:end]}" was read as "{words}"'


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


def unusual_words(text: str) -> tuple[str, ...]:
    """Return the words that are not English in any form, once each and in order."""
    words = dict.fromkeys(re.findall(r"[^\W_](?:[\w'-]*\w)?", text))
    return tuple(word for word in words if not is_english(word))
