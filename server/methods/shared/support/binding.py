"""Find the names that a sentence binds its values to in prose, and compare them with the sources. Pure.

A name is no entry of a list: it is a word that tells the clause of one value from the clauses of the other values of
its kind, or one source from all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from server.methods.shared.support.arithmetic import is_equal, is_stated, support_of
from server.methods.shared.support.clauses import Clause, Misbinding, Value, cut_at, kind_of
from server.methods.shared.support.identifiers import is_abbreviation, tokens_of
from server.methods.shared.support.quantities import Quantity
from server.methods.shared.support.sources import PreparedSource, PreparedText, stems_of

_MIN_SHARE: Final = 0.5
_MIN_LEAD: Final = 0.3


class ProseBindings:
    """Know for each value of a source which words tell its clause from the clauses of others of its kind."""

    def __init__(self, source: PreparedSource) -> None:
        self._clauses: dict[str, list[Clause]] = {}
        text = source.whole
        values: list[Value] = [one for one in text.quantities if one.dimension and not one.is_implied]
        # An abbreviation of the text's own words is no rival of a name.
        symbols = (one for one in text.identifiers if one.kind == "symbol")
        values += (one for one in symbols if not is_abbreviation(one.text, (text.text,)))
        for kind in {kind_of(one) for one in values}:
            same = sorted((one for one in values if kind_of(one) == kind), key=lambda one: one.start)
            self._clauses[kind] = list(_clauses_of(text, same))

    def has(self, value: Value) -> bool:
        clauses = self._clauses.get(kind_of(value), [])
        return any(_is_same(value, one) for clause in clauses for one in clause.values)

    def other_name(self, value: Value, beside: Clause) -> str | None:
        """Return the value to which the source binds the words that stand by this one in a sentence, None for none."""
        clauses = self._clauses.get(kind_of(value), [])
        names = []
        for own in clauses:
            if any(_is_same(value, one) for one in own.values):
                siblings = [clause for clause in clauses if clause.sentence == own.sentence and clause is not own]
                others = siblings or [clause for clause in clauses if clause is not own]
                names.append(_bound_to_other(beside.words, beside.nearest, own, others))
        return names[0] if names and all(names) else None


def _bound_to_other(
    words: frozenset[str], nearest: frozenset[str], own: Clause, others: Sequence[Clause]
) -> str | None:
    """Return a value of another clause, most of whose own words, or the word next to it, are beside the value."""
    clauses = (own, *others)
    _, own_share = _shared(words, own, clauses)
    bar = max(_MIN_SHARE, own_share + _MIN_LEAD)
    for clause in others:
        is_sibling = clause.sentence == own.sentence
        is_next = not own_share and is_sibling and clause.nearest & nearest - own.words
        num_shared, share = _shared(words, clause, clauses)
        # Of another sentence, one word could be a common one.
        if is_next or (share >= bar and (is_sibling or num_shared > 1)):
            return clause.values[0].text
    return None


def _shared(words: frozenset[str], clause: Clause, clauses: Sequence[Clause]) -> tuple[int, float]:
    """Return how many of the words that only this clause has are among the given words, and which share of them."""
    own = clause.words.difference(*(one.words for one in clauses if one is not clause))
    shared = len(words & own)
    return shared, shared / len(own) if own else 0.0


def _is_same(a: Value, b: Value) -> bool:
    if isinstance(a, Quantity) and isinstance(b, Quantity):
        return is_equal(a, b)
    return a.text.casefold() == b.text.casefold()


def _clauses_of(text: PreparedText, values: Sequence[Value]) -> Iterator[Clause]:
    """Yield the clauses of the values of one kind: a sentence, cut between two of them."""
    groups: dict[int, list[Value]] = {}
    for value in values:
        groups.setdefault(text.sentence_of(value.start), []).append(value)
    ends = [*text.sentence_starts[1:], len(text.text)]
    for sentence, members in groups.items():
        low, high = text.sentence_starts[sentence], ends[sentence]
        yield from (replace(clause, sentence=sentence) for clause in cut_at(text.text, (low, high), members))


def misbound_in_prose(sentence: str, values: Sequence[Value], sources: Sequence[ProseBindings]) -> Iterator[Misbinding]:
    """Yield the values that the sentence puts beside the words of another value of the same kind."""
    for kind in dict.fromkeys(kind_of(one) for one in values if kind_of(one)):
        same = [one for one in values if kind_of(one) == kind]
        for clause in cut_at(sentence, (0, len(sentence)), same):
            if len(clause.values) > 1:
                continue
            value = clause.values[0]
            others = [source.other_name(value, clause) for source in sources if source.has(value)]
            if others and all(others):
                yield Misbinding(value, f"what stands beside {value.text} goes with {others[0]} in the source")


class SourceNames:
    """Know the words that name what one source alone is about: of its title, or more than once in its text."""

    def __init__(self, sources: Sequence[PreparedSource]) -> None:
        self._sources = sources
        texts = [stems_of(source.whole.text) for source in sources]
        num_texts = Counter(stem for stems in texts for stem in stems)
        self._about = [_named(source) for source in sources]
        self._names = [frozenset(stem for stem in stems if num_texts[stem] == 1) for stems in self._about]

    def misbound(self, sentence: str, values: Sequence[Value], cited: Sequence[PreparedSource]) -> Iterator[Misbinding]:
        """Yield the values that stand in other sources than the one that alone has the name beside them."""
        for kind in dict.fromkeys(kind_of(one) for one in values if isinstance(one, Quantity) and one.dimension):
            same = [one for one in values if kind_of(one) == kind]
            for clause in cut_at(sentence, (0, len(sentence)), same):
                for value in clause.values:
                    source = self._other(value, clause.words, cited)
                    if source is not None:
                        yield Misbinding(
                            value, f"{source.name}, which has the name beside it, does not have {value.text}"
                        )

    def _other(self, value: Value, words: frozenset[str], cited: Sequence[PreparedSource]) -> PreparedSource | None:
        if not isinstance(value, Quantity):
            return None
        named = [source for source, names in zip(self._sources, self._names, strict=True) if names & words]
        if not named or any(support_of(value, source) for source in named):
            return None
        having = [source for source in cited or self._sources if is_stated(value, source.whole)]
        about = [stems for source, stems in zip(self._sources, self._about, strict=True) if source in having]
        if not having or any(stems & words for stems in about):
            return None
        return next((source for source in named if _has_kind(value, source)), None)


def _has_kind(value: Quantity, source: PreparedSource) -> bool:
    """Return whether a source measures the same kind of thing: another dose for one, a dose per kilogram for one."""
    kinds = set(value.dimension.split(" / ")) & {value.dimension.split(" / ")[0], "[body_mass]"}
    return any(kinds & set(dimension.split(" / ")) for dimension in source.whole.by_dimension)


def _named(source: PreparedSource) -> frozenset[str]:
    counts = Counter(stem for word in tokens_of(source.source.text) for stem in stems_of(word))
    stems = stems_of(source.source.title) | {stem for stem, number in counts.items() if number > 1}
    return frozenset(stem for stem in stems if not stem.isdecimal())
