"""Find the names of a graph in a text: the longest ones, without overlaps, in microseconds and without a model.

Beside the graph's own names there may be those of a terminology (``terms``): the other names of its nodes, and names of
what it lacks, so that a step can say so, and no shorter name within such a name is taken for it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np

from retrieval.graph.linking.dictionary_lookup.ambiguity import (
    TokenSpan,
    is_abbreviation_meant,
    is_degree,
    is_false_friend,
    is_generic,
    is_modified,
)
from retrieval.graph.linking.dictionary_lookup.identifiers import IdentifierFinder
from retrieval.graph.linking.dictionary_lookup.matching import SUBSTANCES, Candidate, Matcher, are_joined
from retrieval.graph.linking.dictionary_lookup.names import (
    ALIAS,
    CLASS,
    SYMBOL,
    SYNONYM,
    NameTable,
    TableBuilder,
    is_english,
    name_flags,
)
from retrieval.graph.linking.dictionary_lookup.normalize import fold, hash_tokens, tokens_of
from retrieval.graph.linking.dictionary_lookup.spelling import Speller
from retrieval.graph.linking.dictionary_lookup.terms import TermNames, with_terms
from retrieval.graph.types import GraphStore, Linked, Mention, Node, choices_start

# Characters of a complex that is known without that word.
_LEAST_COMPLEX: Final = 4
# Characters of a gene's name that is a symbol, however its letters are written.
_MOST_SYMBOL: Final = 5
MAX_TOKENS: Final = 4_000


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
        return all(map(is_english, fold(word)))

    def find(self, text: str, kinds: frozenset[str] | None = None) -> tuple[Mention, ...]:
        """Return the mentions of ``read``."""
        return self.read(text, kinds).mentions

    def read(self, text: str, kinds: frozenset[str] | None = None) -> Linked:
        """Read a text, up to its first 4,000 tokens.

        A generic name ("disease") is found only if there is no other, and not if the word before it specifies it
        ("keratinocyte carcinoma" is no "carcinoma"); a class of diseases only beside no other disease. ``margin`` is
        0.0 if several nodes have the name equally and the text does not decide. Answer options are read without
        spelling correction.
        """
        by_id = self.identifiers.find(text, kinds)
        tokens = tokens_of(text)[:MAX_TOKENS]
        id_spans = [(mention.start, mention.end) for mention in by_id]
        corrections = self.speller.read(text, tokens, [*id_spans, (choices_start(text), len(text))], kinds)
        candidates = [
            one
            for one in (*self.matcher.candidates(text, tokens, kinds), *corrections.candidates)
            if not any(one.stretch.start < end and start < one.stretch.end for start, end in id_spans)
        ]
        found = _longest(self._without_degrees(candidates))
        chosen = [one for one in found if not self._is_another_word(one)]
        longer = {one.stretch.start: name for one in chosen if (name := self._longer(one, chosen))}
        chosen = [one for one in chosen if one.stretch.start not in longer]
        beside = self._classes_beside(chosen)
        mentions = _specific(text, [*by_id, *self._mentions(one for one in chosen if one not in beside)])
        concepts = self._absent(chosen)
        notes = [
            *(f'"{text[m.start : m.end]}" was read as {m.node.name}' for m in mentions if m.method == "spelling"),
            *map(self._tie, corrections.ambiguous),
            *(
                f'"{name}" is another name than those within it, and the graph does not have it'
                for name in dict.fromkeys(longer.values())
            ),
            *(_absence(text, one) for one in concepts),
            *corrections.notes,
        ]
        classes = self._mentions(one for one in beside if not is_generic(one.stretch.words))
        return Linked(mentions=mentions, classes=tuple(classes), concepts=concepts, notes=tuple(notes))

    def _without_degrees(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates without those that are a node's name and words of degree or course before it.

        Metastatic melanoma is melanoma where the graph has no node of it.
        """
        known = {(one.stretch.first, one.stretch.last) for one in candidates if self._is_known(one)}
        return [one for one in candidates if self._is_known(one) or not _is_more(one.stretch, known)]

    def _is_known(self, candidate: Candidate) -> bool:
        return candidate.posting.node < self.table.nodes_known

    def _is_another_word(self, candidate: Candidate) -> bool:
        """Return True for a false friend, and for an abbreviation of a disease that the context does not support."""
        stretch, posting, _, _ = candidate
        if is_false_friend(stretch):
            return True
        is_short = posting.flags & SYMBOL and stretch.raw.isalpha() and not stretch.text.isupper()
        return bool(is_short and self.matcher.is_clinical(posting) and not is_abbreviation_meant(stretch))

    def _longer(self, candidate: Candidate, others: Iterable[Candidate]) -> str:
        """Return the words of two substances that are another one, "" for none: silver diamine fluoride."""
        for other in others if self._is_substance(candidate) else ():
            first, last = sorted((candidate.stretch, other.stretch), key=lambda stretch: stretch.start)
            if first.text[first.end : last.start] == " " and self._is_substance(other):
                return first.text[first.start : last.end]
        return ""

    def _is_substance(self, candidate: Candidate) -> bool:
        return self.matcher.is_of(candidate.posting, SUBSTANCES) and not candidate.posting.flags & SYMBOL

    def _classes_beside(self, chosen: list[Candidate]) -> list[Candidate]:
        """Return the classes of diseases beside another disease: what is asked is asked of that one.

        A class that an "and" joins to a disease is asked for as well.
        """
        classes = [one for one in chosen if one.posting.flags & CLASS]
        diseases = [
            one.stretch
            for one in chosen
            if one not in classes and self.matcher.is_clinical(one.posting) and not is_generic(one.stretch.words)
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
            for candidate in self.matcher.within(part, tokens, range(len(tokens)), frozenset({mention.node.kind}))
            if (candidate.stretch.first == 0) != (candidate.stretch.last == len(tokens))
            and not is_generic(candidate.stretch.words)
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
        words = tuple(token.text for token in tokens)
        firsts, lasts = self.table.ranges(np.array([hash_tokens(words)], np.uint64))
        stretch = TokenSpan(name, tokens, 0, len(tokens), words)
        found = self.matcher.best(stretch, int(firsts[0]), int(lasts[0]), kinds, anything=True)
        return next(self._mentions([found] if found else []), None)

    def _tie(self, candidates: Sequence[Candidate]) -> str:
        mentions = (*self._mentions(candidates), *self._absent(candidates))
        names = dict.fromkeys(mention.node.name for mention in mentions)
        return f'"{candidates[0].stretch.raw}" may be {" or ".join(names)}; neither was taken'

    def _mentions(self, candidates: Iterable[Candidate]) -> Iterator[Mention]:
        for one in candidates:
            node = self.store.node(self.table.node_id(one.posting.node)) if self._is_known(one) else None
            if node is not None:
                yield _mention(one, node)

    def _absent(self, candidates: Iterable[Candidate]) -> tuple[Mention, ...]:
        absent = [one for one in candidates if not self._is_known(one) and not is_generic(one.stretch.words)]
        if self.names is None:
            return ()
        concepts = (self.names.node(one.posting.node - self.table.nodes_known) for one in absent)
        return _in_order(map(_mention, absent, concepts))


def build_dictionary(store: GraphStore, names: TermNames | None = None) -> Dictionary:
    """Build a dictionary from one streaming pass over ``store.names``, with ``names`` beside them.

    Costs about 25 µs and 40 bytes a name, and another 150 bytes a node while it builds.
    """
    builder = TableBuilder()
    for name, node_id, kind, is_synonym in store.names():
        flags = name_flags(name) | (SYNONYM if is_synonym else 0)
        if 1 < len(name) <= _MOST_SYMBOL and " " not in name and "gene" in kind.casefold():
            flags |= SYMBOL
        node = builder.node(node_id, kind)
        builder.add(name, node, flags)
        # mTORC1 for "mTORC1 complex"
        short = name.removesuffix(" complex")
        if kind.casefold() == "complex" and _LEAST_COMPLEX <= len(short) < len(name):
            builder.add(short, node, flags | SYNONYM)
    table = builder.finish()
    finder = IdentifierFinder(store, table.kind_names)
    matcher = Matcher(table if names is None else with_terms(table, names))
    return Dictionary(store, matcher, Speller(matcher), finder, names)


def _is_more(stretch: TokenSpan, known: Container[tuple[int, int]]) -> bool:
    """Return True if a window is that of a known name and words of degree before it."""
    places = range(stretch.first + 1, stretch.last)
    return any((p, stretch.last) in known and is_degree(stretch.tokens[stretch.first : p]) for p in places)


def _mention(one: Candidate, node: Node) -> Mention:
    method: Literal["synonym", "exact", "spelling"] = "synonym" if one.posting.flags & (SYNONYM | ALIAS) else "exact"
    score = 1.0
    if one.slips:
        method, score = "spelling", 1.0 - one.slips / one.stretch.letters
    margin = 0.0 if one.tied else 1.0
    return Mention(node=node, start=one.stretch.start, end=one.stretch.end, method=method, score=score, margin=margin)


def _specific(text: str, mentions: list[Mention]) -> tuple[Mention, ...]:
    specific = [mention for mention in mentions if not is_generic(fold(text[mention.start : mention.end]))]
    return _in_order(specific or [mention for mention in mentions if not is_modified(text, mention.start)])


def _in_order(mentions: Iterable[Mention]) -> tuple[Mention, ...]:
    return tuple(sorted(mentions, key=lambda mention: mention.start))


def _longest(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield non-overlapping candidates, preferring the one with the most letters and digits, then the first."""
    used: set[int] = set()
    for candidate in sorted(candidates, key=lambda found: (-found.stretch.letters, found.stretch.start)):
        characters = range(candidate.stretch.start, candidate.stretch.end)
        if used.isdisjoint(characters):
            used.update(characters)
            yield candidate


def _absence(text: str, absent: Mention) -> str:
    name = text[absent.start : absent.end]
    if fold(name) == fold(absent.node.name):
        return f'"{name}" names no node of the graph'
    return f'"{name}" is {absent.node.name}, of which the graph has no node'
