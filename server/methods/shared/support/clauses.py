"""Cut sentences into the clauses of the values in them. Pure.

A value's clause is what a reader takes together with it. The words that join clauses are those of four languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from server.methods.shared.support.identifiers import Identifier
from server.methods.shared.support.quantities import FREQUENCY, Quantity
from server.methods.shared.support.sources import stems_of

Value = Identifier | Quantity

CONJUNCTIONS: Final = frozenset(
    re.findall(
        r"\w+",
        "and or but while whereas versus vs than und oder aber während et ou mais tandis alors y o pero mientras",
    )
)
_CONJUNCTION: Final = rf"\s(?:{'|'.join(sorted(CONJUNCTIONS))})\.?\s(?:qu?e\s)?"
CLAUSE_END: Final = re.compile(rf"[;\n|]|[.:!?]\s|,\s|\s[–—]\s|{_CONJUNCTION}")
# What parts two values: a sign, else a word, else a parenthesis.
_PARTED: Final = tuple(map(re.compile, (r"[;\n]|[.:!?]\s", r",\s|\s[–—]\s", _CONJUNCTION, r"[()|]")))
_STRONG: Final = re.compile(r"[;\n]|[.!?]\s")


@dataclass(frozen=True, slots=True)
class Misbinding:
    """Hold a value that a sentence binds to another name than its sources do, with both names' places in words."""

    value: Value
    detail: str


@dataclass(frozen=True, slots=True)
class Clause:
    """Hold the place of a clause and the values of one kind in it."""

    values: tuple[Value, ...]
    start: int
    end: int


def kind_of(value: Value) -> str:
    """Return what a value can be compared with: a rate goes with the amount that it is a rate of."""
    if isinstance(value, Identifier):
        return "snp" if value.text.startswith("rs") else value.kind
    return value.dimension if value.dimension == FREQUENCY else value.dimension.replace(" / [time]", "")


def cut_at(text: str, span: tuple[int, int], values: Sequence[Value]) -> Iterator[Clause]:
    """Cut a sentence between values that follow one another, at the signs, else at the words, that join clauses.

    Values of one range or pair ("4.2% vs 26.6%") share the words around them.
    """
    groups, spans = [[values[0]]], [[span[0], span[1]]]
    for before, value in pairwise(values):
        between = before.end, value.start
        marks = next(filter(None, (list(pattern.finditer(text, *between)) for pattern in _PARTED)), [])
        if marks and stems_of(text[slice(*between)]):
            spans[-1][1] = marks[0].start()
            # The name of "A (1 mg), B (2 mg)" stands between two signs.
            last = next((mark for mark in reversed(marks) if stems_of(text[mark.end() : value.start])), marks[-1])
            spans.append([last.end(), span[1]])
            groups.append([value])
        else:
            groups[-1].append(value)
    for members, (low, high) in zip(groups, spans, strict=True):
        begin = max((found.end() for found in _STRONG.finditer(text, low, members[0].start)), default=low)
        end = next((found.start() for found in _STRONG.finditer(text, members[-1].end, high)), high)
        yield Clause(tuple(members), begin, end)
