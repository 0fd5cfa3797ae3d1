"""Compare what a sentence puts beside its values with what prose puts beside them. Pure.

No list tells what a name is. The clauses of two values of one kind are aligned word by word, and the words in which
they differ name what each value belongs to: of "of bupivacaine 2 mg/kg and of ropivacaine 3 mg/kg" the two drugs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise, product
from typing import Final

from models.function_words import FUNCTION_WORDS
from server.methods.shared.identifiers import Identifier, plain, tokens_of
from server.methods.shared.support.arithmetic import is_equal, is_rate_of
from server.methods.shared.support.quantities import FREQUENCY, Quantity
from server.methods.shared.support.sources import PreparedSource, PreparedText, stem_of, stems_of

Value = Identifier | Quantity
Words = frozenset[str]
_MIN_SHARE: Final = 0.5
_MIN_LEAD: Final = 0.3
_MANY: Final = 3
_MOST_UNKNOWN: Final = 2
_VALUE: Final = "#"
_TOKEN: Final = re.compile(r"\w+")
_SHORT: Final = re.compile(r"\(([A-Z]\w{1,9})\)")  # stands for the words before it
_NON: Final = re.compile(r"\bnon[- ](?=\w)", re.IGNORECASE)
_DASH: Final = re.compile(r"\s?[-‐‑–—−]\s?[<>≤≥]?")
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


@dataclass(frozen=True)
class _Bound:
    """Hold a value with the words of its clause in order, each other value of the clause as one word."""

    value: Value
    words: tuple[str, ...]
    sentence: int
    short: Words = frozenset()
    is_open: bool = False

    @cached_property
    def content(self) -> Words:
        return content_of(self.words)


@dataclass(frozen=True, slots=True)
class _Contrast:
    """Hold the words in which the clause of a value and that of a rival differ at one place."""

    own: Words
    other: Words
    is_aligned: bool
    short: Words = frozenset()

    def is_other(self, words: Words) -> bool:
        share = _share(self.other, words)
        if share >= _MIN_SHARE:
            return share - _share(self.own, words) >= _MIN_LEAD
        return bool(self.short & words) and not self.own & words


def _share(names: Words, words: Words) -> float:
    return len(names & words) / len(names) if names else 0.0


def content_of(words: Sequence[str]) -> Words:
    return frozenset(word for word in words if word[0] != _VALUE and len(word) > 1 and word not in FUNCTION_WORDS)


class ProseBindings:
    """Know the clauses of a source's values, by kind."""

    def __init__(self, source: PreparedSource) -> None:
        self._text = source.whole
        self.title = content_of(tuple(_stems(source.source.title)))
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
        spots = [{(one.sentence, one.words) for one in self.clauses_of(value)} for value in values]
        return bool(set.intersection(*spots))

    def rival_of(self, value: Value, words: Words, asked: Words, sentence: Words) -> _Bound | None:
        """Return the clause of another value whose names are among the words, where the value's own are not.

        Words that say nothing of any name speak of what was asked.
        """
        others = [one for one in self.of(value) if not is_same(value, one.value)]
        owns = self.clauses_of(value)
        unknown = words - self.words - asked
        if unknown:
            asked = frozenset()  # other words for a name, or the name of something else
        # What shares little with a rival and has much that no clause has speaks of another thing.
        others = [one for one in others if _MOST_UNKNOWN * len(words & one.content) >= len(unknown)]
        common = self._common(value)
        rivals = [
            next((one for one in others if _is_nearer(words - (common - own.content), asked, sentence, one, own)), None)
            for own in owns
        ]
        return rivals[0] if rivals and all(rivals) else None

    def _common(self, value: Value) -> Words:
        """Return the words of the clauses of three values or more, which tell no two of them apart."""
        counts = Counter(word for one in {c.words: c for c in self.of(value)}.values() for word in one.content)
        return frozenset(word for word, count in counts.items() if count >= _MANY)

    def namesake_of(self, value: Value, words: Words, others: Sequence[ProseBindings]) -> _Bound | None:
        """Return the clause of another source that says the same of the name in its title, if that name is there."""
        for own, source in product(self.clauses_of(value), others):
            # A word of the other title that stands in this source too does not tell the two apart.
            titles = _Contrast(self.title - source.title, source.title - self.title - self.words, is_aligned=True)
            if titles.is_other(words) and not titles.own & (words | own.content):
                for other in source.of(value):
                    if own.content & other.content and not is_same(value, other.value):
                        return other
        return None


def is_same(a: Value, b: Value) -> bool:
    if isinstance(a, Quantity) and isinstance(b, Quantity):
        return is_equal(a, b) if a.dimension == b.dimension else is_rate_of(a, b) or is_rate_of(b, a)
    return a.text.casefold() == b.text.casefold()


def _is_nearer(words: Words, asked: Words, sentence: Words, other: _Bound, own: _Bound) -> bool:
    if not words & (own.content ^ other.content):
        words |= asked
    if not (other.content - own.content) & words:
        return False
    if own.is_open and other.sentence < own.sentence:
        return False  # "It" may stand for a name of the sentences before
    contrasts = list(_contrasts(own, other))
    is_first = other.sentence == own.sentence and _is_before(other, own)
    if is_first and any(one.own & words and one.other & words for one in contrasts):
        return False  # what the first clause says may hold for both
    if any(one.is_other(words) for one in contrasts if one.is_aligned):
        return True
    loose = [one for one in contrasts if not one.is_aligned]
    return any(one.is_other(words) for one in loose) and not any(one.own & (words | sentence) for one in contrasts)


def _contrasts(own: _Bound, other: _Bound) -> Iterator[_Contrast]:
    """Yield the places at which two clauses differ.

    Words that only one of them has stand for it alone, but for those of the first clause of a sentence, which can hold
    for the clauses behind it too.
    """
    for kind, a, b, c, d in SequenceMatcher(None, own.words, other.words, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        ours, theirs = _names(own, (a, b), other), _names(other, (c, d), own)
        if ours and theirs:
            names = frozenset(theirs[: len(ours) + 1])
            yield _Contrast(frozenset(ours[: len(theirs) + 1]), names, is_aligned=True, short=names & other.short)
        elif (ours or theirs) and (own.sentence != other.sentence or bool(theirs) == _is_before(own, other)):
            yield _Contrast(frozenset(ours), frozenset(theirs), is_aligned=False)


def _names(bound: _Bound, span: tuple[int, int], other: _Bound) -> list[str]:
    """Return the words of a span that the other clause lacks, those nearest to the value first."""
    words = list(bound.words[slice(*span)])
    if any(word == _VALUE + kind_of(bound.value) for word in bound.words[span[1] :]):
        words.reverse()
    return [word for word in dict.fromkeys(words) if word in bound.content - other.content]


def _is_before(a: _Bound, b: _Bound) -> bool:
    return (a.sentence, a.value.start) < (b.sentence, b.value.start)


def _clauses_of(text: PreparedText, kind: str) -> Iterator[_Bound]:
    """Yield the clauses of the values of one kind: a sentence, cut between two of them."""
    every: tuple[Value, ...] = (*text.identifiers, *text.quantities)
    values = [one for one in every if kind_of(one) == kind]
    values = [one for one in values if not (isinstance(one, Quantity) and one.is_implied)]
    groups: dict[int, list[Value]] = {}
    for value in sorted(values, key=lambda one: one.start):
        groups.setdefault(text.sentence_of(value.start), []).append(value)
    ends = [*text.sentence_starts[1:], len(text.text)]
    for sentence, members in groups.items():
        begin = next(_TOKEN.finditer(text.text, text.sentence_starts[sentence]), None)
        is_open = begin is not None and begin[0].casefold() in FUNCTION_WORDS
        for clause in cut_at(text.text, (text.sentence_starts[sentence], ends[sentence]), members):
            words = _words_of(text.text, clause, (*text.quantities, *text.identifiers))
            short = frozenset(map(stem_of, map(str.casefold, _SHORT.findall(text.text, clause.start, clause.end))))
            yield from (_Bound(value, words, sentence, short, is_open) for value in clause.values)


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
    return map(stem_of, tokens_of(_NON.sub("non", text)))


def _has_unknown_name(text: str, clause: Clause, known: Words) -> bool:
    """Return whether a clause has a word with a capital that a source lacks: an abbreviation, a brand, a translation.

    What it stands for cannot be told. The first word of a sentence counts where a capital stands within it.
    """
    begin = next((found.start() for found in _TOKEN.finditer(text)), 0)
    spans = [(value.start, value.end) for value in clause.values]
    for found in _TOKEN.finditer(text, clause.start, clause.end):
        word = found[0][1:] if found.start() == begin else found[0]
        if word.islower() or len(found[0]) < 2 or any(a <= found.start() < b for a, b in spans):
            continue
        stem = stem_of(plain(found[0]))
        if stem.isalpha() and stem not in known and stem not in FUNCTION_WORDS:
            return True
    return False


def misbound_in_prose(
    sentence: str,
    values: Sequence[Value],
    question: str,
    sources: Sequence[ProseBindings],
    every: Sequence[ProseBindings],
) -> Iterator[Misbinding]:
    """Yield the values that the sentence puts beside the names of another value of the same kind."""
    asked, named = content_of(tuple(_stems(question))), content_of(tuple(_stems(sentence)))
    for kind in dict.fromkeys(kind_of(one) for one in values):
        if kind in _UNJUDGED:
            continue
        same = [one for one in values if kind_of(one) == kind]
        clauses = list(cut_at(sentence, (0, len(sentence)), same))
        for clause in clauses:
            words = _words_of(sentence, clause, values)
            value = clause.values[0]
            if len(clause.values) > 1 and not any(source.is_range(clause.values) for source in sources):
                between = [sentence[a.end : b.start] for a, b in pairwise(clause.values)]
                if not all(map(_DASH.fullmatch, between)):
                    yield from _crossed(words, clause.values, sources)
                continue
            having = [source for source in sources if source.clauses_of(value)]
            if any(_has_unknown_name(sentence, clause, source.words) for source in having):
                continue
            others = [source for source in every if source not in having]
            beside = content_of(words)
            rivals = [
                one.rival_of(value, beside, asked if len(clauses) == 1 else frozenset(), named)
                or one.namesake_of(value, beside, others)
                for one in having
            ]
            if rivals and rivals[0] is not None and all(rivals):
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
    names = [(one.own, one.other) for one in _contrasts(own, other) if one.is_aligned]
    for ours, theirs in (*names, (own.content - other.content, other.content - own.content)):
        first = [place for place, word in enumerate(words) if word in ours]
        second = [place for place, word in enumerate(words) if word in theirs]
        if first and second and second[-1] < first[0]:
            between = words[second[-1] + 1 : first[0]]
            is_list = not content_of(between) - own.content and not CONJUNCTIONS.isdisjoint(between)
            if is_list or any(word[0] == _VALUE for word in between):
                return True
    return False
