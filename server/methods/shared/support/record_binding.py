"""Find the names that a sentence binds its identifiers to, and hold both to one record. Pure.

A name is a symbol of a record, or, where a sentence has none, a variant or what the question names.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from server.methods.shared.identifiers import Identifier, identifiers_in
from server.methods.shared.support.arithmetic import is_equal
from server.methods.shared.support.binding import CLAUSE_END, Misbinding, Value
from server.methods.shared.support.quantities import Quantity
from server.methods.shared.support.sources import PreparedText, stems_of

_SHORT_NAME: Final = re.compile(r"(?<![\w-])(?:[A-Z]{2}|[A-Z][a-z]{1,6}\d+[a-z\d]*)(?![\w-])")


@dataclass(frozen=True, slots=True)
class Record:
    """Hold what is known of one thing: the record of a reply, or in prose a whole source, whose numbers are not its."""

    text: PreparedText
    is_prose: bool = False


@dataclass(frozen=True, slots=True)
class _Placed:
    """Hold a value of a sentence with the numbers of the records that have it."""

    value: Value
    records: frozenset[int]

    @property
    def start(self) -> int:
        return self.value.start


def misbound_in_records(
    sentence: str, values: Sequence[Value], question: str, records: Sequence[Record]
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
    ways = (
        ()
        if not bound
        else (_by_order(bound, entities), _by_clause(sentence, bound, entities), _by_list(bound, entities))
    )
    failures = [[pair for pair in way if not pair[0].records & pair[1].records] for way in ways if way]
    best = min(failures, key=len, default=[])
    return tuple(_misbinding(one, name) for one, name in best)


def _short_names(sentence: str, records: Sequence[Record]) -> Iterator[Identifier]:
    """Yield the words that only a record makes a name: of two capitals ("AR"), or of another species ("Psmb10")."""
    for found in _SHORT_NAME.finditer(sentence):
        if any(re.search(rf"(?<!\w){re.escape(found[0])}(?!\w)", record.text.text) for record in records):
            yield Identifier(found[0], "symbol", *found.span())


def _all_records(names: Sequence[_Placed]) -> frozenset[int]:
    return frozenset().union(*(name.records for name in names))


def _described(sentence: str, records: Sequence[Record]) -> frozenset[int]:
    """Return the records that the sentence names in words: by a word that stands in one record alone."""
    words = [stem for stem in stems_of(sentence) if stem.isalpha() and len(stem) > 3]
    having = [[place for place, record in enumerate(records) if stem in stems_of(record.text.text)] for stem in words]
    return frozenset(places[0] for places in having if len(places) == 1)


def _records_of(value: Value, records: Sequence[Record]) -> frozenset[int]:
    if isinstance(value, Identifier):
        return frozenset(place for place, record in enumerate(records) if record.text.index.has(value))
    if value.dimension or not value.written[0].is_integer():
        return frozenset(
            place for place, record in enumerate(records) if not record.is_prose and _stands(value, record)
        )
    number = str(int(abs(value.written[0])))
    return frozenset(
        place for place, record in enumerate(records) if not record.is_prose and number in record.text.index.words
    )


def _stands(value: Quantity, record: Record) -> bool:
    return any(is_equal(value, other) for other in record.text.by_dimension.get(value.dimension, ()))


def _is_name(value: Value) -> bool:
    return isinstance(value, Identifier) and value.kind == "symbol" and not _is_variant(value)


def _is_variant(value: Value) -> bool:
    return isinstance(value, Identifier) and re.fullmatch(r"rs\d+|[A-Z]{1,2}_?\d{5,}(?:\.\d+)?", value.text) is not None


def _asked(question: str, records: Sequence[Record]) -> list[_Placed]:
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


def _by_clause(sentence: str, bound: Sequence[_Placed], names: Sequence[_Placed]) -> list[tuple[_Placed, _Placed]]:
    """Bind each value to the only name of its clause, or of the nearest clause before it that has one."""
    starts = [0, *(found.end() for found in CLAUSE_END.finditer(sentence))]
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
