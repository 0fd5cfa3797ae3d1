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
from server.methods.shared.support.quantities import Quantity
from server.methods.shared.support.sources import stems_of

Value = Identifier | Quantity

_CONJUNCTION: Final = (
    r"\s(?:and|or|but|while|whereas|versus|vs\.?|than|und|oder|aber|während|et|ou|mais|tandis que|alors que|y|o|pero|"
    r"mientras que)\s"
)
CLAUSE_END: Final = re.compile(rf"[;\n|]|[.:!?]\s|,\s|\s[–—]\s|{_CONJUNCTION}")
_SIGN: Final = re.compile(r"[;\n|()]|[.:!?]\s|,\s|\s[–—]\s")
_JOINT: Final = re.compile(_CONJUNCTION)
_STRONG: Final = re.compile(r"[;\n|]|[.!?]\s")
_WORD_BEFORE: Final = re.compile(r"([^\W\d_]{4,})(?:\s[^\W\d_]{1,3})?[\s(]{1,2}$")


@dataclass(frozen=True, slots=True)
class Misbinding:
    """Hold a value that a sentence binds to another name than its sources do, with both names' places in words."""

    value: Value
    detail: str


@dataclass(frozen=True, slots=True)
class Clause:
    """Hold the words of a clause with the values of one kind in it; ``nearest`` is the word right before the first."""

    values: tuple[Value, ...]
    words: frozenset[str]
    nearest: frozenset[str] = frozenset()
    sentence: int = 0


def kind_of(value: Value) -> str:
    return value.kind if isinstance(value, Identifier) else value.dimension


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
