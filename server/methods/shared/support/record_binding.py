"""Find the names that a sentence binds its identifiers to, and hold both to one record. Pure.

A name is a symbol of a record, or, where a sentence has none, a variant or what the question names.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from server.methods.shared.identifiers import Identifier, identifiers_in
from server.methods.shared.support.arithmetic import is_equal
from server.methods.shared.support.binding import CLAUSE_END, Misbinding, Value
from server.methods.shared.support.sources import PreparedText

_TWO_LETTERS: Final = re.compile(r"(?<![\w-])[A-Z]{2}(?![\w-])")
_VARIANT: Final = re.compile(r"rs\d+|[A-Z]{1,2}_?\d{5,}(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Record:
    """Hold what is known of one thing: the record of a reply, or in prose a whole source, whose numbers are not its."""

    text: PreparedText
    is_prose: bool = False

    def has(self, value: Value) -> bool:
        if isinstance(value, Identifier):
            return self.text.index.has(value)
        if self.is_prose:
            return False
        if value.dimension or not value.written[0].is_integer():
            return any(is_equal(value, other) for other in self.text.by_dimension.get(value.dimension, ()))
        return str(int(abs(value.written[0]))) in self.text.index.words


@dataclass(frozen=True, slots=True)
class _Placed:
    """Hold a value of a sentence with the numbers of the records that have it."""

    value: Value
    records: frozenset[int]

    @property
    def start(self) -> int:
        return self.value.start


Pairs = list[tuple[_Placed, _Placed]]


def misbound_in_records(
    sentence: str, values: Sequence[Value], question: str, records: Sequence[Record]
) -> tuple[Misbinding, ...]:
    """Return the values of a sentence, in order, that stand in no record together with the name that they go with.

    Of the ways in which values can go with names, the one counts by which most of them do. A sentence without a name
    speaks of those of the question, if one record has them all.
    """
    placed = _placed(sorted((*values, *_short_names(sentence, records)), key=lambda one: one.start), records)
    symbols = [one for one in placed if isinstance(one.value, Identifier) and one.value.kind == "symbol"]
    variants = [one for one in symbols if _VARIANT.fullmatch(one.value.text)]
    names = [one for one in symbols if one not in variants] or variants
    bound = [one for one in placed if one not in names]
    if not names:
        names = _placed(tuple(identifiers_in(question)), records)
        names = names if names and frozenset.intersection(*(one.records for one in names)) else []
    entities = _entities(names)
    if not entities or not bound:
        return ()
    if len(entities) == 1:
        ways = [[(one, entities[0]) for one in bound]]
    else:
        ways = [_by_order(bound, entities), _by_clause(sentence, bound, entities), _by_list(bound, entities)]
    failures = [[pair for pair in way if not pair[0].records & pair[1].records] for way in ways if way]
    wrong = min(failures, key=len, default=[])
    return tuple(
        Misbinding(one.value, f"no record has {one.value.text} together with {name.value.text}") for one, name in wrong
    )


def _short_names(sentence: str, records: Sequence[Record]) -> Iterator[Identifier]:
    """Yield the words of two capitals ("AR"), which only a record makes a name."""
    for found in _TWO_LETTERS.finditer(sentence):
        if any(record.text.index.has_phrase(found[0].casefold()) for record in records):
            yield Identifier(found[0], "symbol", *found.span())


def _placed(values: Sequence[Value], records: Sequence[Record]) -> list[_Placed]:
    """Return the values that some record has."""
    found = [_Placed(value, frozenset(at for at, one in enumerate(records) if one.has(value))) for value in values]
    return [one for one in found if one.records]


def _by_order(bound: Sequence[_Placed], names: Sequence[_Placed]) -> Pairs:
    """Bind each value to the name before it, or, where a value comes first, to the name behind it."""
    starts = [name.start for name in names]
    is_value_first = bound[0].start < starts[0]
    places = [bisect_left(starts, one.start) - (0 if is_value_first else 1) for one in bound]
    return [(one, names[min(max(place, 0), len(names) - 1)]) for one, place in zip(bound, places, strict=True)]


def _by_clause(sentence: str, bound: Sequence[_Placed], names: Sequence[_Placed]) -> Pairs:
    """Bind each value to the only name of its clause, or of the nearest clause before it that has one."""
    starts = [found.end() for found in CLAUSE_END.finditer(sentence)]
    of_clause = {bisect_right(starts, name.start): name for name in names}
    if len(of_clause) < len(names):
        return []
    pairs = []
    for one in bound:
        before = [place for place in of_clause if place <= bisect_right(starts, one.start)]
        pairs.append((one, of_clause[max(before) if before else min(of_clause)]))
    return pairs


def _by_list(bound: Sequence[_Placed], names: Sequence[_Placed]) -> Pairs:
    """Bind the values of each kind to the names in their order, where all names stand before or behind all values."""
    kinds: dict[str, list[_Placed]] = {}
    for one in bound:
        kinds.setdefault(one.value.kind if isinstance(one.value, Identifier) else "id", []).append(one)
    is_mixed = any(names[0].start < one.start < names[-1].start for one in bound)
    if is_mixed or any(len(members) not in (1, len(names)) for members in kinds.values()):
        return []
    # "both on chromosome 7"
    lists = [members * len(names) if len(members) == 1 else members for members in kinds.values()]
    return [pair for members in lists for pair in zip(members, names, strict=True)]


def _entities(names: Sequence[_Placed]) -> list[_Placed]:
    """Return the names in order, each name of one entity once: two names of one record are one entity's."""
    entities: list[_Placed] = []
    for name in names:
        if not entities or not entities[-1].records & name.records:
            entities.append(name)
        else:
            entities[-1] = _Placed(entities[-1].value, entities[-1].records & name.records)
    return entities
