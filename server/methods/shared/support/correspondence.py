"""Compare the numbers, identifiers and citations of an answer's sentence with the texts that it rests on. Pure.

Everything here is exact: what is not read as a number, a unit, an identifier or a citation is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from server.methods.base import Mismatch, MismatchKind, Source
from server.methods.shared.identifiers import Identifier, identifiers_in, is_common
from server.methods.shared.support.arithmetic import follows_by_rule, follows_from, is_equal, is_stated
from server.methods.shared.support.binding import CLAUSE_END, ProseBindings, Value, misbound_in_prose
from server.methods.shared.support.exchange import exchanged, sentences_of
from server.methods.shared.support.quantities import Quantity, QuantityReader
from server.methods.shared.support.record_binding import Record, misbound_in_records
from server.methods.shared.support.sources import PreparedSource, PreparedText, stems_of, without_options

# Not the genotypes P[8] and G1P[8].
_CITATION: Final = re.compile(r"(?<!\b[A-Z])(?<!\d[A-Z])\[(\d{1,3}(?:\s?[,;–-]\s?\d{1,3})*)\]")
_RANGE: Final = re.compile(r"(\d{1,3})(?:\s?[–-]\s?(\d{1,3}))?")
_LIST_MARKER: Final = re.compile(r"(?:^|\n)[ \t]*\d{1,3}[.)](?=\s)")
_MAX_COUNT: Final = 10
_MIN_SHARED: Final = 0.5
_MIN_WORDS: Final = 2
_MAX_SOURCES: Final = 5
# They name a document whatever the sentence says.
_ADDRESSES: Final = frozenset({"url", "doi", "article"})
_V = TypeVar("_V", Quantity, Identifier)


@dataclass(frozen=True, slots=True)
class Correspondence:
    """Hold how many numbers and identifiers of a sentence were looked up, and what of it does not correspond.

    ``notes`` are numbers that stand nowhere, but in place of none: computed, converted, or the model's own knowledge.
    """

    num_checked: int
    mismatches: tuple[Mismatch, ...]
    notes: tuple[Mismatch, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """Hold a sentence with what is read from it."""

    text: str
    identifiers: tuple[Identifier, ...]
    quantities: tuple[Quantity, ...]
    citations: tuple[tuple[int, int, int], ...]  # number, start, end


class Evidence:
    """Compare the sentences of one answer with its sources, which are prepared once."""

    def __init__(self, sources: Sequence[Source], question: str, reader: QuantityReader) -> None:
        self._reader = reader
        self._sources = tuple(PreparedSource.of(source, reader) for source in sources)
        self._question = PreparedText.of(without_options(question), reader)
        self._asked = question
        self._computed: list[Quantity] = []  # of the sentences that were checked
        self._sentences = {id(source): sentences_of(source.whole) for source in self._sources if not source.records}
        self._bound = {id(source): ProseBindings(source) for source in self._sources if not source.records}

    def check(self, sentence: str, context: str = "") -> Correspondence:
        """Compare a sentence with the sources; ``context`` is the rest of the answer."""
        statement = self._read(sentence)
        cited = self._cited(statement)
        found = [*self._uncitable(statement), *_out_of_date(statement, cited, self._sources)]
        computed, unknown = self._unstated(statement, cited, context)
        missing = [*self._numbers(statement, cited, unknown), *self._identifiers(statement, cited)]
        notes = tuple(one for one, is_against in missing if not is_against)
        found += (one for one, is_against in missing if is_against)
        found += self._bindings(statement, cited, computed)
        num_checked = len(statement.identifiers) + sum(map(_is_checked, statement.quantities))
        return Correspondence(num_checked, tuple(sorted(found, key=lambda one: (one.start, one.end))), notes)

    def _read(self, text: str) -> Statement:
        identifiers = tuple(identifiers_in(text))
        marks = [found.span() for pattern in (_CITATION, _LIST_MARKER) for found in pattern.finditer(text)]
        quantities = self._reader.read(text, [*marks, *((one.start, one.end) for one in identifiers)])
        return Statement(text, identifiers, tuple(quantities), tuple(_citations(text)))

    def _cited(self, statement: Statement) -> tuple[PreparedSource, ...]:
        numbers = {number for number, _, _ in statement.citations}
        return tuple(source for source in self._sources if source.source.number in numbers)

    def _uncitable(self, statement: Statement) -> Iterator[Mismatch]:
        known = {source.source.number for source in self._sources}
        for number, start, end in statement.citations:
            if number not in known:
                detail = f"no source has the number {number}"
                yield Mismatch("citation", statement.text[start:end], start, end, detail)

    def _numbers(
        self, statement: Statement, cited: Sequence[PreparedSource], missing: Sequence[Quantity]
    ) -> Iterator[tuple[Mismatch, bool]]:
        """Yield the numbers that stand nowhere and follow from none, with whether that speaks against the sentence."""
        for quantity in missing:
            others = [source for source in self._sources if is_stated(quantity, source.whole)]
            is_elsewhere = any(is_equal(quantity, one) for one in _numbers_beside(quantity, statement, others))
            is_against = is_elsewhere or _is_number_in_place(quantity, statement, cited or self._sources)
            yield _missing("number", quantity, others, cited), is_against

    def _unstated(
        self, statement: Statement, cited: Sequence[PreparedSource], context: str
    ) -> tuple[list[Quantity], list[Quantity]]:
        """Return the numbers that neither a source nor the question gives: those that follow, and the rest.

        They follow from what the answer names, each in one step; what follows may be used in the next step.
        """
        sources = cited or self._sources
        texts = (self._question, *(source.whole for source in sources))
        checked = filter(_is_checked, statement.quantities if sources else ())
        rest = [
            one for one in checked if not (_is_bare(one, self._question) or any(is_stated(one, text) for text in texts))
        ]
        known = [*self._computed, *self._operands(statement, self._read(context))] if rest else []
        found: list[Quantity] = []
        while derived := [one for one in rest if _follows(one, known, sources)]:
            found += derived
            known += derived
            rest = [one for one in rest if one not in derived]
        self._computed += found
        return found, rest

    def _operands(self, statement: Statement, answer: Statement) -> list[Quantity]:
        """Return the numbers of the answer and of the question that stand in a source or in the question."""
        texts = [self._question, *(source.whole for source in self._sources)]
        named = (*statement.quantities, *answer.quantities)
        stated = [quantity for quantity in named if any(is_stated(quantity, text) for text in texts)]
        return [*stated, *self._question.quantities]

    def _identifiers(self, statement: Statement, cited: Sequence[PreparedSource]) -> Iterator[tuple[Mismatch, bool]]:
        """Yield the identifiers that stand nowhere, with whether that speaks against the sentence."""
        sources = cited or self._sources
        for one in statement.identifiers if sources else ():
            texts = (self._question, *(source.whole for source in sources))
            if is_common(one) or any(text.index.has(one) for text in texts):
                continue
            others = [source for source in self._sources if source.whole.index.has(one)]
            is_elsewhere = any(other.text == one.text for other in _identifiers_beside(one, statement, others))
            is_against = is_elsewhere or one.kind in _ADDRESSES or _is_identifier_in_place(one, statement, sources)
            yield _missing("identifier", one, others, cited), is_against

    def _bindings(
        self, statement: Statement, cited: Sequence[PreparedSource], computed: Sequence[Quantity]
    ) -> Iterator[Mismatch]:
        sources = cited or self._sources
        values: list[Value] = sorted((*statement.identifiers, *statement.quantities), key=lambda one: one.start)
        records = [record for source in sources for record in _records_of(source)]
        wrong = list(misbound_in_records(statement.text, values, self._asked, records)) if len(records) > 1 else []
        prose = [self._bound[id(source)] for source in sources if id(source) in self._bound]
        in_prose = misbound_in_prose(statement.text, values, self._question.text, prose)
        # What is computed brings the values of several names together.
        wrong += (one for one in in_prose if not _stands_with(computed, one.value, statement.text))
        without_marks = _CITATION.sub(lambda mark: " " * len(mark[0]), statement.text)
        texts = [self._sentences[id(source)] for source in sources if id(source) in self._sentences]
        for start, end, name in [] if wrong else exchanged(without_marks, texts):
            text = statement.text[start:end]
            yield Mismatch("record", text, start, end, f"{text} and {name} have changed places with the source")
        for one in {one.value.start: one for one in reversed(wrong)}.values():
            yield Mismatch("record", one.value.text, one.value.start, one.value.end, one.detail)


def _records_of(source: PreparedSource) -> Iterator[Record]:
    """Yield the records of a source; one without is a record itself, of prose where it can be cited."""
    if source.records:
        yield from map(Record, source.records)
    else:
        yield Record(source.whole, is_prose=source.source.number is not None)


def _is_identifier_in_place(one: Identifier, statement: Statement, sources: Sequence[PreparedSource]) -> bool:
    """Return whether an identifier stands where a source has another of its kind, which the sentence lacks.

    What a record says of its thing is complete: an identifier that it lacks is wrong.
    """
    if any(map(_is_complete, sources)):
        return True
    own = {other.text for other in statement.identifiers}
    return any(other.text not in own for other in _identifiers_beside(one, statement, sources))


def _identifiers_beside(
    one: Identifier, statement: Statement, sources: Sequence[PreparedSource]
) -> Sequence[Identifier]:
    return _beside(statement, [(s, [o for o in s.whole.identifiers if o.kind == one.kind]) for s in sources])


def _is_complete(source: PreparedSource) -> bool:
    return bool(source.records) or source.source.number is None


def _is_number_in_place(one: Quantity, statement: Statement, sources: Sequence[PreparedSource]) -> bool:
    """Return whether a number stands where a source has another of its kind, as an identifier may."""
    if any(map(_is_complete, sources)):
        return True
    own = [other for other in statement.quantities if other is not one]
    return any(
        not any(a.written == b.written or (a.dimension == b.dimension and is_equal(a, b)) for a in own)
        for b in _numbers_beside(one, statement, sources)
    )


def _numbers_beside(one: Quantity, statement: Statement, sources: Sequence[PreparedSource]) -> Sequence[Quantity]:
    return _beside(statement, [(s, [other for other in s.whole.quantities if _is_alike(one, other)]) for s in sources])


def _beside(statement: Statement, values: Sequence[tuple[PreparedSource, Sequence[_V]]]) -> Sequence[_V]:
    """Return those of the values of sources in the sentence that says most nearly what the statement says.

    It has at least half of the statement's words; without one, return none.
    """
    words = frozenset(word for word in stems_of(_CITATION.sub(" ", statement.text)) if not word.isdecimal())
    least, found = max(_MIN_WORDS, _MIN_SHARED * len(words)), list[_V]()
    for source, alike in values:
        places: dict[int, list[_V]] = {}
        for value in alike:
            places.setdefault(source.whole.sentence_of(value.start), []).append(value)
        for place, members in places.items():
            shared = len(words & stems_of(source.whole.sentence(place)))
            if shared > least or (shared == least and not found):
                least, found = shared, members
    return found


def _is_alike(one: Quantity, other: Quantity) -> bool:
    return one.dimension == other.dimension or (one.written == other.written and bool(other.dimension))


def _citations(text: str) -> Iterator[tuple[int, int, int]]:
    for mark in _CITATION.finditer(text):
        for found in _RANGE.finditer(mark[1]):
            low, high = int(found[1]), int(found[2] or found[1])
            yield from ((number, *mark.span()) for number in range(low, min(high, low + 20) + 1))


def _is_checked(quantity: Quantity) -> bool:
    """Return whether a number says enough to be looked up: small counts do not."""
    value = abs(quantity.written[0])
    # "two units" may be of blood.
    if quantity.dimension and not (quantity.unit.expression == "bioactivity" and value <= _MAX_COUNT):
        return True
    return value > _MAX_COUNT or not value.is_integer()


def _stands_with(computed: Sequence[Quantity], value: Value, text: str) -> bool:
    return any(one.start > value.start and not CLAUSE_END.search(text, value.end, one.start) for one in computed)


def _follows(one: Quantity, known: Sequence[Quantity], sources: Sequence[PreparedSource]) -> bool:
    others = [other for other in known if other.text != one.text]
    return follows_from(one, others) or follows_by_rule(one, known, sources)


def _is_bare(quantity: Quantity, question: PreparedText) -> bool:
    """Return whether a question has the number without any unit, which its writer left out."""
    return any(not other.dimension and other.written == quantity.written for other in question.quantities)


def _out_of_date(
    statement: Statement, cited: Sequence[PreparedSource], sources: Sequence[PreparedSource]
) -> Iterator[Mismatch]:
    """Yield the citations of sources that are out of date, or without citations the values that only such have."""
    for source in cited:
        if source.source.status != "current":
            start, end = next((a, b) for number, a, b in statement.citations if number == source.source.number)
            yield _old(source, statement.text[start:end], start, end)
    if statement.citations or all(source.source.status == "current" for source in sources):
        return
    values: tuple[Value, ...] = (*statement.identifiers, *filter(_is_checked, statement.quantities))
    for value in values:
        having = [source for source in sources if _has(source, value)]
        if having and all(source.source.status != "current" for source in having):
            yield _old(having[0], value.text, value.start, value.end)


def _old(source: PreparedSource, text: str, start: int, end: int) -> Mismatch:
    is_retracted = source.source.status == "retracted"
    detail = (
        f"{source.name}, on which this rests, has been {'retracted' if is_retracted else 'superseded or withdrawn'}"
    )
    return Mismatch("retracted" if is_retracted else "superseded", text, start, end, detail)


def _has(source: PreparedSource, value: Value) -> bool:
    return source.whole.index.has(value) if isinstance(value, Identifier) else is_stated(value, source.whole)


def _missing(
    kind: MismatchKind, one: Quantity | Identifier, others: Sequence[PreparedSource], cited: Sequence[PreparedSource]
) -> Mismatch:
    if others:
        places = " and ".join(source.name for source in others[:2])
        detail = f"{one.text} stands in {places}, not in {_named(cited)}"
    else:
        detail = f"{one.text} stands neither in {_named(cited) if cited else 'what was read'} nor in the question"
    return Mismatch(kind, one.text, one.start, one.end, detail)


def _named(sources: Sequence[PreparedSource]) -> str:
    return ", ".join(source.name for source in sources[:_MAX_SOURCES])
