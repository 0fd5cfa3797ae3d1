"""Compare what a sentence puts beside its values with what prose puts beside them. Pure.

No list tells what a name is. The clauses of two values of one kind are aligned word by word, and the words in which
they differ name what each value belongs to: of "of bupivacaine 2 mg/kg and of ropivacaine 3 mg/kg" the two drugs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise, product
from typing import Final

from models.function_words import FUNCTION_WORDS
from server.methods.shared.identifiers import Identifier, plain, tokens_of
from server.methods.shared.support.arithmetic import is_equal, is_rate_of
from server.methods.shared.support.quantities import Quantity
from server.methods.shared.support.sources import PreparedSource, PreparedText, stem_of, stems_of

Value = Identifier | Quantity
Words = frozenset[str]
_MIN_LEAD: Final = 0.5
_MOST_UNKNOWN: Final = 2
_VALUE: Final = "#"
_SHORT: Final = re.compile(r"\(([A-Z]\w{1,9})\)")
_UNJUDGED: Final = frozenset({"", "symbol"})  # plain numbers and symbols stand beside too many things

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
    return value.dimension.replace(" / [time]", "")


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


@dataclass(frozen=True)
class _Bound:
    """Hold a value of a source with the words of its clause in order, each value of the clause as one word.

    ``short`` are its abbreviations in parentheses, which stand for the words before them.
    """

    value: Value
    words: tuple[str, ...]
    short: Words

    @cached_property
    def content(self) -> Words:
        return content_of(self.words)


def content_of(words: Sequence[str]) -> Words:
    return frozenset(word for word in words if word[0] != _VALUE and len(word) > 1 and word not in FUNCTION_WORDS)


class ProseBindings:
    """Know the clauses of a source's values, by kind."""

    def __init__(self, source: PreparedSource) -> None:
        self._text = source.whole
        self.words = frozenset(_stems(source.whole.text))
        self._bound: dict[str, list[_Bound]] = {}

    def of(self, value: Value) -> list[_Bound]:
        """Return the clauses of the values of one kind in the source."""
        kind = kind_of(value)
        if kind not in self._bound:
            self._bound[kind] = list(_clauses_of(self._text, kind))
        return self._bound[kind]

    def clauses_of(self, value: Value) -> list[_Bound]:
        """Return the clauses of one value."""
        return [one for one in self.of(value) if is_same(value, one.value)]

    def is_range(self, values: Sequence[Value]) -> bool:
        """Return whether the source too has the values side by side."""
        return bool(set.intersection(*({one.words for one in self.clauses_of(value)} for value in values)))

    def rival_of(self, value: Value, words: Words, asked: Words) -> _Bound | None:
        """Return the clause of another value whose names are among the words, where the value's own are not.

        Words that say nothing of either speak of what was asked.
        """
        unknown = words - self.words - asked
        if unknown:
            asked = frozenset()  # other words for a name, or the name of something else
        others = [one for one in self.of(value) if not is_same(value, one.value)]
        # What shares little with a rival and has much that no clause has speaks of another thing.
        others = [one for one in others if _MOST_UNKNOWN * len(words & one.content) >= len(unknown)]
        rivals = [
            next((other for other in others if _is_nearer(words, asked, other, own)), None)
            for own in self.clauses_of(value)
        ]
        return rivals[0] if rivals and all(rivals) else None


def is_same(a: Value, b: Value) -> bool:
    if isinstance(a, Quantity) and isinstance(b, Quantity):
        return is_equal(a, b) if a.dimension == b.dimension else is_rate_of(a, b) or is_rate_of(b, a)
    return a.text.casefold() == b.text.casefold()


def _is_nearer(words: Words, asked: Words, other: _Bound, own: _Bound) -> bool:
    if not words & (own.content ^ other.content):
        words |= asked
    return any(_share(theirs, words) - _share(ours, words) >= _MIN_LEAD for ours, theirs in _contrasts(own, other))


def _contrasts(own: _Bound, other: _Bound) -> Iterator[tuple[Words, Words]]:
    """Yield the words in which two clauses differ: at each place where the other has some, and in all."""
    alone = own.content - other.content
    for _, a, b, c, d in SequenceMatcher(None, own.words, other.words, autojunk=False).get_opcodes():
        ours, theirs = _names(own, (a, b), other), _names(other, (c, d), own)
        if ours and theirs:
            yield frozenset(ours[: len(theirs) + 1]), frozenset(theirs[: len(ours) + 1])
        elif theirs:
            yield alone, frozenset(theirs)
    yield alone, other.content - own.content
    yield own.short, other.short


def _names(bound: _Bound, span: tuple[int, int], other: _Bound) -> list[str]:
    """Return the words of a span that the other clause lacks, those nearest to the value first."""
    words = list(bound.words[slice(*span)])
    if any(word == _VALUE + kind_of(bound.value) for word in bound.words[span[1] :]):
        words.reverse()
    return [word for word in dict.fromkeys(words) if word in bound.content - other.content]


def _share(names: Words, words: Words) -> float:
    return len(names & words) / len(names) if names else 0.0


def _clauses_of(text: PreparedText, kind: str) -> Iterator[_Bound]:
    """Yield the clauses of the values of one kind: a sentence, cut between two of them."""
    every: tuple[Value, ...] = (*text.identifiers, *text.quantities)
    values = [one for one in every if kind_of(one) == kind]
    groups: dict[int, list[Value]] = {}
    for value in sorted(values, key=lambda one: one.start):
        groups.setdefault(text.sentence_of(value.start), []).append(value)
    ends = [*text.sentence_starts[1:], len(text.text)]
    for sentence, members in groups.items():
        for clause in cut_at(text.text, (text.sentence_starts[sentence], ends[sentence]), members):
            words = _words_of(text.text, clause, every)
            short = frozenset(map(stem_of, map(str.casefold, _SHORT.findall(text.text, clause.start, clause.end))))
            yield from (_Bound(value, words, short) for value in clause.values)


def _words_of(text: str, clause: Clause, others: Sequence[Value]) -> tuple[str, ...]:
    """Return the words of a clause in order: a measure, and a value of the clause's own kind, as its kind.

    They end where a second value of another kind begins what is said of the next name: "76 percent with 2 mg, 66
    percent with laser".
    """
    words: list[str] = []
    place, last = clause.start, clause.values[-1]
    seen: dict[str, int] = {}
    for value in sorted((*clause.values, *others), key=lambda one: (one.start, -one.end)):
        if not kind_of(value) or not place <= value.start < clause.end:
            continue
        kind, is_own = _VALUE + kind_of(value), kind_of(value) == kind_of(last)
        words += _stems(text[place : value.start])
        if isinstance(value, Identifier) and not is_own:
            words.append(stem_of(plain(value.text).replace("-", "")))
        else:
            if kind in seen and not is_own and content_of(words[seen[kind] :]):
                if value.start > last.start:
                    return tuple(words)
                words = words[seen[kind] :]
            words.append(kind)
            seen[kind] = len(words)
        place = value.end
    return (*words, *_stems(text[place : clause.end]))


def _stems(text: str) -> Iterator[str]:
    return map(stem_of, tokens_of(text))


def misbound_in_prose(
    sentence: str, values: Sequence[Value], question: str, sources: Sequence[ProseBindings]
) -> Iterator[Misbinding]:
    """Yield the values that the sentence puts beside the names of another value of the same kind."""
    asked = content_of(tuple(_stems(question)))
    for kind in dict.fromkeys(kind_of(one) for one in values):
        if kind in _UNJUDGED:
            continue
        clauses = list(cut_at(sentence, (0, len(sentence)), [one for one in values if kind_of(one) == kind]))
        for clause in clauses:
            value, beside = clause.values[0], content_of(_words_of(sentence, clause, values))
            having = [source for source in sources if source.clauses_of(value)]
            if len(clause.values) > 1:
                if not any(source.is_range(clause.values) for source in sources):
                    yield from _crossed(_words_of(sentence, clause, values), clause.values, sources)
                continue
            if not having:
                continue
            rivals = [one.rival_of(value, beside, asked if len(clauses) == 1 else frozenset()) for one in having]
            if rivals[0] is not None and all(rivals):
                detail = f"what stands beside {value.text} goes with {rivals[0].value.text} in the source"
                yield Misbinding(value, detail)


def _crossed(words: Sequence[str], values: Sequence[Value], sources: Sequence[ProseBindings]) -> Iterator[Misbinding]:
    """Yield the values that stand side by side in another order than their names."""
    for first, second in pairwise(values):
        for source in sources:
            pairs = list(product(source.clauses_of(first), source.clauses_of(second)))
            if pairs and all(_is_crossed(words, *pair) for pair in pairs):
                yield Misbinding(first, f"{first.text} and {second.text} stand in the order of each other's names")


def _is_crossed(words: Sequence[str], own: _Bound, other: _Bound) -> bool:
    """Return whether the name of the second value stands before that of the first.

    Both names stand on two sides of the values, or joined: in "less with B, A had 1% vs 2%" they do neither.
    """
    for ours, theirs in _contrasts(own, other):
        first = [place for place, word in enumerate(words) if word in ours]
        second = [place for place, word in enumerate(words) if word in theirs]
        if first and second and second[-1] < first[0]:
            between = words[second[-1] + 1 : first[0]]
            is_list = not content_of(between) - own.content and not CONJUNCTIONS.isdisjoint(between)
            if is_list or any(word[0] == _VALUE for word in between):
                return True
    return False
