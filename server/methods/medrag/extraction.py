"""Answer a medical question with verbatim sentences of the passages found, chosen by the verifier.

Used by MedRAG, i-MedRAG and WeiseEule where the model cannot write, or on request:

1. the sentences of the passages are judged by the verifier            ``Gate.read``
2. those that answer are quoted, each with its passage's number         ``_open``
3. yes or no is read from them, by the model too where it was trained to ``_worded``
4. a choice is the one whose statement they support                     ``_chosen``

Where no sentence reaches the verifier's bar of quotes, the outcome is ``not_found``, and the nearest one is shown as
such if it reaches the bar of screening; where none reaches the bar of answers, the quotes are ``partial``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from models.decoding.types import LoopUsage
from models.errors import ModelError
from retrieval.corpus.search.ranking import RankedPassage
from server.methods.base import AnswerOutcome, Done, Event, Evidence, EvidenceRead, Step, TextDelta, TranscriptDelta
from server.methods.medrag.context import Numbered, distinct, evidence_of, passage_record, render
from server.methods.medrag.report import NO_USAGE, abstention, details_of, retrieved, searched
from server.methods.medrag.request import MedRagOptions, ParsedQuestion
from server.methods.shared.choices import asks_yes_or_no
from server.methods.shared.empty_states import NO_COLLECTION
from server.methods.shared.identifiers import IdentifierIndex, identifiers_in
from server.methods.shared.outcomes import counted, listed, notice
from server.methods.shared.passages import Gathered, Passages
from server.methods.shared.reading.evidence import EvidenceText
from server.methods.shared.reading.gate import DOUBTFUL, ChoiceSupport, Gate, JudgedSentence, Reading
from server.methods.shared.sentences import quotation
from server.methods.shared.verdicts import MOST_READ, Verdict, VerdictReader

# Sentences that the model reads for each choice.
_READ_FOR_A_CHOICE: Final = 2
_NOTHING: Final = "Nothing that was found answers this question."
_NEAREST: Final = f"{_NOTHING} Nearest:"
_OPEN_CHOICE: Final = "The sentences that were read support none of the choices more than the others."


@dataclass(frozen=True, slots=True)
class Extraction:
    """Hold what is needed for one extractive answer.

    ``method`` is the name for the trace. ``verdicts`` reads yes or no from the quotes; with None the verifier does.
    ``by_paper``: the quotes of one paper are next to each other.
    """

    method: str
    question: ParsedQuestion
    options: MedRagOptions
    passages: Passages
    gate: Gate
    verdicts: VerdictReader | None = None
    by_paper: bool = False

    async def events(self, queries: Sequence[str]) -> AsyncGenerator[Event, None]:
        """Search all queries and yield the whole answer; the first query is the question."""
        gathered = await self.passages.find(queries, self.options.passage_query)
        async with aclosing(self.answered(queries, gathered)) as answering:
            async for event in answering:
                yield event

    async def answered(self, queries: Sequence[str], gathered: Gathered) -> AsyncGenerator[Event, None]:
        """Yield the whole answer from what was found for the queries."""
        for place in range(len(queries)):
            yield Step(searched(gathered, place))
        found = _usable(gathered)
        if not found:
            for event in abstention(*_why_nothing(gathered), self._details(gathered)):
                yield event
            return
        yield retrieved(queries, found)
        yield EvidenceRead(evidence_of(found))
        texts = [EvidenceText(one.passage.heading, one.passage.text) for one in found]
        reading = await self.gate.read(self.question.stem, texts)
        yield Step(_read_step(reading))
        extract = await self._extract(reading, found)
        if extract.fault:
            yield Step(f"yes, no or a choice is the verifier's alone: the model failed: {extract.fault}")
        for event in self._ending(extract, self._details(gathered) | _record_of(reading, found)):
            yield event

    async def _extract(self, reading: Reading, found: Sequence[RankedPassage]) -> Extract:
        question = self.question
        if question.choices and not question.verdict_letters:
            return await self._chosen(reading, found)
        quotes = reading.quotes(self.options.sentences)
        if not quotes:
            return _nearest(reading, found)
        if self.by_paper:
            papers = [found[one.evidence.source].document.paper for one in quotes]
            quotes = [
                one for _, one in sorted(zip(papers, quotes, strict=True), key=lambda pair: papers.index(pair[0]))
            ]
        if question.choices or asks_yes_or_no(question.stem):
            return await self._worded(reading, quotes, found)
        if not reading.is_answered:
            return Extract(tuple(quotes), found, "", "partial", DOUBTFUL)
        if unnamed := _unnamed(question.stem, quotes):
            return Extract(tuple(quotes), found, "", "partial", f"These sentences do not name {listed(unnamed)}.")
        return Extract(tuple(quotes), found)

    async def _worded(
        self, reading: Reading, quotes: Sequence[JudgedSentence], found: Sequence[RankedPassage]
    ) -> Extract:
        """Return the quotes behind the yes or no that they say, where they say one."""
        verdict, usage, fault = Verdict(reading.verdict), NO_USAGE, ""
        if self.verdicts is not None:
            try:
                verdict = await self.verdicts.verdict(self.question.stem, reading.quotes(MOST_READ)) or verdict
            except ModelError as error:
                fault = error.message
            usage = self.verdicts.generations.usage
        letter = self.question.verdict_letters.get(verdict.word.casefold(), "")
        opening = verdict.word if letter else verdict.opening
        return Extract(tuple(quotes), found, opening, "partial", verdict.note, letter, usage, fault)

    async def _chosen(self, reading: Reading, found: Sequence[RankedPassage]) -> Extract:
        """Return the choice that the sentences support, above the verifier's bar and before the others."""
        question, points, usage, fault = self.question, reading.points, NO_USAGE, ""
        support, is_near = None, True
        if self.verdicts is not None:
            try:
                support = await self._chosen_by_model(self.verdicts, reading)
            except ModelError as error:
                fault = error.message
            usage = self.verdicts.generations.usage
        if support is None:
            support = await self.gate.choose(question.stem, question.choices, reading)
            if support is None:
                return _nearest(reading, found)
            is_near = support.sentence.relevance >= points.answer
        quotes = (support.sentence,)
        if not is_near or support.probability < points.choice:
            return Extract(quotes, found, "", "not_found", _OPEN_CHOICE, usage=usage, fault=fault)
        letter = question.letters[support.place]
        return Extract(quotes, found, question.shown(letter), "partial", "", letter, usage, fault)

    async def _chosen_by_model(self, verdicts: VerdictReader, reading: Reading) -> ChoiceSupport | None:
        """Return what model and verifier choose, None where nothing was read or the engine writes no verdict.

        Raises:
            ModelError: the engine or the verifier failed.
        """
        question, read = self.question, reading.ranked[:_READ_FOR_A_CHOICE]
        if not read:
            return None
        rows = await self.gate.judged_choices(question.stem, question.choices, read)
        return await verdicts.choice(question.stem, question.choices, rows)

    def _ending(self, extract: Extract, details: dict[str, Any]) -> Iterator[Event]:
        shown = extract.text
        yield TranscriptDelta(shown, "injected")
        yield TextDelta(shown, is_ours=extract.is_refusal)
        if extract.note and not extract.is_refusal:
            note = notice(extract.note, shown)
            shown += note.text
            yield note
        if self.options.references and extract.quotes:
            text, references = render(extract.numbered, not extract.is_refusal, len(shown))
            yield TextDelta(text, is_ours=True)
            yield Evidence(references)
        details |= {"abstained": extract.is_refusal, "citations": extract.records, "cited": list(extract.numbers)}
        details |= {"reason": extract.note} if extract.is_refusal else {}
        details |= {"answer_letter": extract.letter} if self.question.choices else {}
        yield Done(answer=extract.plain, usage=extract.usage, details=details, outcome=extract.outcome)

    def _details(self, gathered: Gathered) -> dict[str, Any]:
        return details_of(self.method, "extractive", self.question, self.options) | gathered.record


@dataclass(frozen=True, slots=True)
class Extract:
    """Hold the sentences of an answer, and the word or choice before them; passages are numbered as they are quoted.

    ``note`` is the sentence that tells what keeps it from being a whole answer. ``fault``: the model's error, ""
    without one.
    """

    quotes: tuple[JudgedSentence, ...]
    found: Sequence[RankedPassage]
    opening: str = ""
    outcome: AnswerOutcome = "answered"
    note: str = ""
    letter: str = ""
    usage: LoopUsage = NO_USAGE
    fault: str = ""
    numbers: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        places = dict.fromkeys(one.evidence.source for one in self.quotes)
        object.__setattr__(self, "numbers", dict(enumerate(places, 1)))

    @property
    def is_refusal(self) -> bool:
        return self.outcome == "not_found"

    @property
    def text(self) -> str:
        """Return the answer as it is shown."""
        if self.is_refusal:
            return f"{self.note} {' '.join(self._lines)}".strip()
        marks = " ".join(f"[{number}]" for number in self.numbers)
        if self.letter and self.opening:
            return "\n".join([f"{self.opening} {marks}", "", *self._lines])
        opening = [f"{self.opening} {marks}."] if self.opening else []
        return "\n".join([*opening, *self._lines])

    @property
    def _lines(self) -> list[str]:
        numbers = {place: number for number, place in self.numbers.items()}
        return [f"{_about(one)}{quotation(one.evidence.line)} [{numbers[one.evidence.source]}]" for one in self.quotes]

    @property
    def plain(self) -> str:
        """Return the answer without marks; of a choice, the choice alone."""
        if self.letter and not self.is_refusal:
            return self.opening
        quotes = " ".join(f"{_about(one)}{quotation(one.evidence.line)}" for one in self.quotes)
        opening = self.note if self.is_refusal else f"{self.opening}." if self.opening else ""
        return f"{opening} {quotes}" if opening else quotes

    @property
    def numbered(self) -> list[Numbered]:
        return [Numbered(number, self.found[place]) for number, place in self.numbers.items()]

    @property
    def records(self) -> list[dict[str, Any]]:
        """Return the passages that are quoted, each with its sentences and their offsets."""
        return [
            passage_record(self.found[place], number=number, sentences=self._spans(place))
            for number, place in self.numbers.items()
        ]

    def _spans(self, place: int) -> list[dict[str, Any]]:
        return [
            {"text": one.evidence.line, "start": one.evidence.sentence.start, "end": one.evidence.sentence.end}
            for one in self.quotes
            if one.evidence.source == place
        ]


def _unnamed(question: str, quotes: Sequence[JudgedSentence]) -> list[str]:
    """Return those of several symbols of a question that stand in none of the quotes: "DMD or CFTR?"."""
    symbols = {one.text: one for one in identifiers_in(question) if one.kind == "symbol"}
    quoted = IdentifierIndex("\n".join(one.evidence.in_context for one in quotes))
    return [text for text, one in symbols.items() if not quoted.has(one)] if len(symbols) > 1 else []


def _about(one: JudgedSentence) -> str:
    """Return what the quote is about, where it does not name it itself."""
    return f"{quotation(one.evidence.subject)}: " if one.evidence.subject else ""


def _nearest(reading: Reading, found: Sequence[RankedPassage]) -> Extract:
    """Return the best sentence as the nearest one, where it has to do with the question at all."""
    nearest = reading.ranked[:1] if reading.best >= reading.points.screen else ()
    return Extract(nearest, found, "", "not_found", _NEAREST if nearest else _NOTHING)


def _read_step(reading: Reading) -> str:
    unsure = "the best may answer" if reading.quotes(1) else "none answers"
    found = "the best answers" if reading.is_answered else unsure
    return f"{counted(reading.num_sentences, 'sentence')}, {len(reading.ranked)} judged: {found} the question"


def _record_of(reading: Reading, found: Sequence[RankedPassage]) -> dict[str, Any]:
    best = [{"text": one.evidence.line, "score": round(one.relevance, 4)} for one in reading.ranked[:10]]
    return {"num_passages": len(found), "bar": reading.points.answer, "sentences": best}


def _usable(gathered: Gathered) -> list[RankedPassage]:
    """Return the passages of all queries by rank, each text once, without those of retracted articles."""
    depth = max(map(len, gathered.lists), default=0)
    in_turn = [found[rank] for rank in range(depth) for found in gathered.lists if rank < len(found)]
    return [one for _, one in distinct(in_turn) if not one.document.retracted_by]


def _why_nothing(gathered: Gathered) -> tuple[str, AnswerOutcome]:
    if not gathered.namespaces:
        return NO_COLLECTION, "abstained"
    where = listed(gathered.namespaces)
    if any(gathered.lists):
        return f"All that was found in {where} has been retracted.", "abstained"
    return f"Nothing was found in {where}.", "not_found"
