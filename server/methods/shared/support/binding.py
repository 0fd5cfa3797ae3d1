"""Find the names that a sentence binds its numbers and identifiers to, and compare them with the sources. Pure.

A name is no entry of a list: it is a symbol of a record, or a word that tells the clause of one value in a source from
the clauses of the other values of its kind.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from server.methods.shared.support.arithmetic import is_equal, is_stated, support_of
from server.methods.shared.support.identifiers import Identifier, identifiers_in, tokens_of
from server.methods.shared.support.quantities import Quantity
from server.methods.shared.support.sources import PreparedSource, PreparedText, stems_of

Value = Identifier | Quantity

_CONJUNCTION: Final = (
    r"\s(?:and|or|but|while|whereas|versus|vs\.?|than|und|oder|aber|während|et|ou|mais|tandis que|alors que|y|o|pero|"
    r"mientras que)\s"
)
_CLAUSE: Final = re.compile(rf"[;\n|]|[.:!?]\s|,\s|\s[–—]\s|{_CONJUNCTION}")
_WORD_BEFORE: Final = re.compile(r"([^\W\d_]{4,})(?:\s[^\W\d_]{1,3})?[\s(]{1,2}$")
_SHORT_NAME: Final = re.compile(r"(?<![\w-])(?:[A-Z]{2}|[A-Z][a-z]{1,6}\d+[a-z\d]*)(?![\w-])")
_SIGN: Final = re.compile(r"[;\n|()]|[.:!?]\s|,\s|\s[–—]\s")
_JOINT: Final = re.compile(_CONJUNCTION)
_STRONG: Final = re.compile(r"[;\n|]|[.!?]\s")
_MIN_SHARE: Final = 0.5
_MIN_LEAD: Final = 0.3


@dataclass(frozen=True, slots=True)
class Misbinding:
    """Hold a value that a sentence binds to another name than its sources do, with both names' places in words."""

    value: Value
    detail: str


# Records


@dataclass(frozen=True, slots=True)
class _Placed:
    """Hold a value of a sentence with the numbers of the records that have it."""

    value: Value
    records: frozenset[int]

    @property
    def start(self) -> int:
        return self.value.start


def misbound_in_records(
    sentence: str, values: Sequence[Value], question: str, records: Sequence[PreparedText]
) -> tuple[Misbinding, ...]:
    """Return the values of a sentence that stand in no record together with the name that they are bound to."""
    taken = {value.start for value in values}
    values = [*values, *(name for name in _short_names(sentence, records) if name.start not in taken)]
    placed = [_Placed(value, _records_of(value, records)) for value in sorted(values, key=lambda one: one.start)]
    placed = [one for one in placed if one.records]
    names = [one for one in placed if _is_name(one.value)] or [one for one in placed if _is_variant(one.value)]
    bound = [one for one in placed if one not in names]
    if not names:
        names, is_asked = _asked(question, records), True
    else:
        is_asked = False
    entities = _entities(names)
    if not entities or not bound:
        return ()
    described = _described(sentence, records)
    bound = [one for one in bound if not one.records & described or one.records & _all_records(entities)]
    if len(entities) == 1 or is_asked:
        wrong = [one for one in bound if not one.records & _all_records(entities)]
        return tuple(_misbinding(one, entities[0]) for one in wrong)
    ways = () if not bound else (_by_order(bound, entities), _by_clause(sentence, bound, entities), _by_list(bound, entities))
    failures = [[pair for pair in way if not pair[0].records & pair[1].records] for way in ways if way]
    best = min(failures, key=len, default=[])
    return tuple(_misbinding(one, name) for one, name in best)


def _short_names(sentence: str, records: Sequence[PreparedText]) -> Iterator[Identifier]:
    """Yield the words that only a record makes a name: of two capitals ("AR"), or of another species ("Psmb10")."""
    for found in _SHORT_NAME.finditer(sentence):
        if any(re.search(rf"(?<!\w){re.escape(found[0])}(?!\w)", record.text) for record in records):
            yield Identifier(found[0], "symbol", *found.span())


def _all_records(names: Sequence[_Placed]) -> frozenset[int]:
    return frozenset().union(*(name.records for name in names))


def _described(sentence: str, records: Sequence[PreparedText]) -> frozenset[int]:
    """Return the records that the sentence names in words: by a word that stands in one record alone."""
    words = [stem for stem in stems_of(sentence) if stem.isalpha() and len(stem) > 3]
    having = [[place for place, record in enumerate(records) if stem in stems_of(record.text)] for stem in words]
    return frozenset(places[0] for places in having if len(places) == 1)


def _records_of(value: Value, records: Sequence[PreparedText]) -> frozenset[int]:
    if isinstance(value, Identifier):
        return frozenset(place for place, record in enumerate(records) if record.index.has(value))
    if value.dimension or not value.written[0].is_integer():
        return frozenset(place for place, record in enumerate(records) if _stands(value, record))
    number = str(int(abs(value.written[0])))
    return frozenset(place for place, record in enumerate(records) if number in record.index.words)


def _stands(value: Quantity, record: PreparedText) -> bool:
    return any(is_equal(value, other) for other in record.by_dimension.get(value.dimension, ()))


def _is_name(value: Value) -> bool:
    return isinstance(value, Identifier) and value.kind == "symbol" and not _is_variant(value)


def _is_variant(value: Value) -> bool:
    return isinstance(value, Identifier) and re.fullmatch(r"rs\d+|[A-Z]{1,2}_?\d{5,}(?:\.\d+)?", value.text) is not None


def _asked(question: str, records: Sequence[PreparedText]) -> list[_Placed]:
    """Return the names of the question, where the sentence has none, if one record has them all."""
    names = [_Placed(one, _records_of(one, records)) for one in identifiers_in(question)]
    names = [one for one in names if one.records]
    return names if names and frozenset.intersection(*(one.records for one in names)) else []


def _entities(names: Sequence[_Placed]) -> list[_Placed]:
    """Return the names in order, each name of one entity once: two names of one record are one entity's."""
    entities: list[_Placed] = []
    for name in sorted(names, key=lambda one: one.start):
        if not entities or not entities[-1].records & name.records:
            entities.append(name)
        else:
            entities[-1] = _Placed(entities[-1].value, entities[-1].records & name.records)
    return entities


def _by_order(bound: Sequence[_Placed], names: Sequence[_Placed]) -> list[tuple[_Placed, _Placed]]:
    """Bind each value to the name before it, or, where a value comes first, to the name behind it."""
    starts = [name.start for name in names]
    is_value_first = min(one.start for one in bound) < starts[0]
    pairs = []
    for one in bound:
        place = bisect_left(starts, one.start) - (0 if is_value_first else 1)
        pairs.append((one, names[min(max(place, 0), len(names) - 1)]))
    return pairs


def _by_clause(
    sentence: str, bound: Sequence[_Placed], names: Sequence[_Placed]
) -> list[tuple[_Placed, _Placed]]:
    """Bind each value to the only name of its clause, or of the nearest clause before it that has one."""
    starts = [0, *(found.end() for found in _CLAUSE.finditer(sentence))]
    by_clause: dict[int, list[_Placed]] = {}
    for name in names:
        by_clause.setdefault(bisect_left(starts, name.start + 1) - 1, []).append(name)
    if any(len(members) > 1 for members in by_clause.values()):
        return []
    pairs = []
    for one in bound:
        clause = bisect_left(starts, one.start + 1) - 1
        before = [place for place in by_clause if place <= clause]
        pairs.append((one, by_clause[max(before) if before else min(by_clause)][0]))
    return pairs


def _by_list(bound: Sequence[_Placed], names: Sequence[_Placed]) -> list[tuple[_Placed, _Placed]]:
    """Bind the values of each kind to the names in their order, where all names stand before or behind all values."""
    first, last = names[0].start, names[-1].start
    if any(first < one.start < last for one in bound):
        return []
    kinds: dict[str, list[_Placed]] = {}
    for one in bound:
        kinds.setdefault(one.value.kind if isinstance(one.value, Identifier) else "id", []).append(one)
    if any(len(members) not in (1, len(names)) for members in kinds.values()):
        return []
    pairs = []
    for members in kinds.values():
        if len(members) == 1:  # "both on chromosome 7"
            members = members * len(names)
        pairs += list(zip(members, names, strict=True))
    return pairs


def _misbinding(one: _Placed, name: _Placed) -> Misbinding:
    return Misbinding(one.value, f"no record has {one.value.text} together with {name.value.text}")


# Prose


@dataclass(frozen=True, slots=True)
class Clause:
    """Hold the words of a clause with the values of one kind in it."""

    values: tuple[Value, ...]
    words: frozenset[str]
    nearest: frozenset[str] = frozenset()
    sentence: int = 0


class ProseBindings:
    """Know for each value of a source which words tell its clause from the clauses of others of its kind."""

    def __init__(self, source: PreparedSource) -> None:
        self._source = source
        self._clauses: dict[str, list[Clause]] = {}
        text = source.whole
        values: list[Value] = [one for one in text.quantities if one.dimension and not one.is_implied]
        values += (one for one in text.identifiers if one.kind == "symbol")
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
    own_share = _share(words, own, clauses)
    bar = max(_MIN_SHARE, own_share + _MIN_LEAD)
    for clause in others:
        is_next = not own_share and clause.sentence == own.sentence and clause.nearest & nearest - own.words
        if is_next or _share(words, clause, clauses) >= bar:
            return clause.values[0].text
    return None


def _share(words: frozenset[str], clause: Clause, clauses: Sequence[Clause]) -> float:
    """Return which share of the words that only this clause has is among the given words."""
    own = clause.words.difference(*(one.words for one in clauses if one is not clause))
    return len(words & own) / len(own) if own else 0.0


def kind_of(value: Value) -> str:
    return value.kind if isinstance(value, Identifier) else value.dimension


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


def cut_at(text: str, span: tuple[int, int], values: Sequence[Value]) -> Iterator[Clause]:
    """Cut a sentence between values that follow one another, at the signs, else at the words, that join clauses.

    What stands between the first and the last of such signs belongs to neither side.
    """
    groups, spans = [[values[0]]], [[span[0], span[1]]]
    for before, value in pairwise(values):
        marks = list(_SIGN.finditer(text, before.end, value.start)) or list(
            _JOINT.finditer(text, before.end, value.start)
        )
        # Values of one range or pair ("4.2% vs 26.6%") share the words around them.
        if marks and stems_of(text[before.end : value.start]):
            spans[-1][1] = marks[0].start()
            spans.append([marks[-1].end(), span[1]])
            groups.append([value])
        else:
            groups[-1].append(value)
    for members, (low, high) in zip(groups, spans, strict=True):
        begin = max((found.end() for found in _STRONG.finditer(text, low, members[0].start)), default=low)
        end = next((found.start() for found in _STRONG.finditer(text, members[-1].end, high)), high)
        inner = [begin, *(place for one in members for place in (one.start, one.end)), end]
        words = " ".join(text[i:j] for i, j in zip(inner[::2], inner[1::2], strict=True))
        yield Clause(tuple(members), stems_of(words), _nearest(text[begin : members[0].start]))


def _nearest(before: str) -> frozenset[str]:
    """Return the word before a value, unless another sign or more than one short word stands between."""
    found = _WORD_BEFORE.search(before)
    return stems_of(found[1]) if found else frozenset()


def misbound_in_prose(
    sentence: str, values: Sequence[Value], sources: Sequence[ProseBindings]
) -> Iterator[Misbinding]:
    """Yield the values that the sentence puts beside the words of another value of the same kind."""
    for kind in {kind_of(one) for one in values if kind_of(one)}:
        same = [one for one in values if kind_of(one) == kind]
        for clause in cut_at(sentence, (0, len(sentence)), same):
            if len(clause.values) > 1:
                continue
            value = clause.values[0]
            others = [source.other_name(value, clause) for source in sources if source.has(value)]
            if others and all(others):
                yield Misbinding(value, f"what stands beside {value.text} goes with {others[0]} in the source")


# Sources


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
        for kind in {kind_of(one) for one in values if kind_of(one) and isinstance(one, Quantity)}:
            same = [one for one in values if kind_of(one) == kind]
            for clause in cut_at(sentence, (0, len(sentence)), same):
                for value in clause.values:
                    source = self._other(value, clause.words, cited)
                    if source is not None:
                        yield Misbinding(value, f"{source.name}, which has the name beside it, does not have {value.text}")

    def _other(
        self, value: Value, words: frozenset[str], cited: Sequence[PreparedSource]
    ) -> PreparedSource | None:
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
