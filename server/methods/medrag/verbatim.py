"""Answer a medical question with verbatim sentences of the passages found, chosen by their scores or by the model.

Used by MedRAG, i-MedRAG and WeiseEule. Each sentence is followed by the number of its passage. Without the model
(``Extraction``), below the calibrated score of ``shared.extractive``, the method abstains; a choice is only named with
a sentence that supports it; yes or no is named where a model that was trained for it decides it from the quotes. In
quotes of the model (``Quotation``), a choice, yes or no is a line below the quotes, and never stands without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from models.decoding.types import LoopUsage
from models.errors import ModelError
from retrieval.corpus.namespaces.settings import embedded_title
from retrieval.corpus.search.ranking import RankedPassage
from server.methods.base import (
    AnswerOutcome,
    Done,
    Event,
    Evidence,
    EvidenceRead,
    Step,
    TextDelta,
    TranscriptDelta,
)
from server.methods.medrag.context import Numbered, distinct, evidence_of, passage_record, render
from server.methods.medrag.judging import NO_VERDICT
from server.methods.medrag.report import (
    NO_USAGE,
    abstention,
    counted,
    listed,
    retrieved,
    searched,
)
from server.methods.medrag.request import MARK, MedRagOptions, ParsedQuestion
from server.methods.shared.choices import asks_yes_or_no
from server.methods.shared.extractive import (
    ChoiceSupport,
    ScoredSentence,
    Source,
    bar_for,
    candidates_of,
    chosen,
    scored,
    supported_choice,
)
from server.methods.shared.outcomes import notice
from server.methods.shared.passages import Gathered, Passages
from server.methods.shared.quoted import QuotedAnswer, QuoteTask, Quoting
from server.methods.shared.sentences import quotation, quoted_line
from server.methods.shared.subjects import missing_name, with_subjects
from server.methods.shared.verdicts import (
    MOST_READ,
    SMALL_VERDICT,
    UNCLEAR,
    UNSETTLED,
    EvidenceSentence,
    VerdictReader,
    lacking,
)

_NO_CHOICE: Final = f"{MARK} none of the choices"
_NOT_STATED: Final = f"{MARK} not stated"
_OPEN_LEFT: Final = {
    _NO_CHOICE: "The quoted sentences do not say which choice is right.",
    _NOT_STATED: "The quoted sentences do not say yes or no.",
}
_RETRACTED: Final = "All that was found has been retracted."


@dataclass(frozen=True, slots=True)
class Extraction:
    """Hold what is needed for one extractive answer.

    ``method`` is the name for the trace. ``by_paper``: the quotes of one paper are next to each other. ``verdicts``
    decides yes or no from the quotes; with None it is for the reader to judge.
    """

    method: str
    question: ParsedQuestion
    options: MedRagOptions
    passages: Passages
    by_paper: bool = False
    verdicts: VerdictReader | None = None

    async def events(self, queries: Sequence[str]) -> AsyncGenerator[Event, None]:
        """Search all queries and yield the whole answer; the first query is the question."""
        gathered = await self.passages.find(queries, self.options.passage_query)
        for place in range(len(queries)):
            yield Step(searched(gathered, place))
        found = _usable(gathered)
        if not found:
            reason, outcome = _why_nothing(gathered)
            for event in abstention(reason, self._details(gathered), outcome=outcome):
                yield event
            return
        yield retrieved(queries, found)
        yield EvidenceRead(evidence_of(found))
        reading = await self._read(gathered, found)
        yield Step(
            f"{counted(reading.num_sentences, 'sentence')}, {len(reading.ranked)} compared with the question; "
            f"best score {reading.best:.2f}, {reading.bar:.2f} is needed"
        )
        if self.question.choices:
            events = self._choice(reading, self._details(gathered) | reading.record)
        else:
            decision = await self._decision(reading)
            if decision.fault:
                yield Step(f"yes or no is left open: the model failed: {decision.fault}")
            events = self._quoted(reading, decision)
        for event in events:
            yield event

    async def _read(self, gathered: Gathered, found: Sequence[RankedPassage]) -> _Reading:
        stem = self.question.stem
        sources = [Source(embedded_title(one.passage), one.passage.text) for one in found]
        candidates = await asyncio.to_thread(candidates_of, stem, sources)
        lines = [one.compared for one in candidates.sentences]
        scores = await self.passages.compare(stem, lines, gathered.namespaces)
        ranked = tuple(with_subjects(scored(candidates.sentences, scores), sources, stem))
        return _Reading(gathered, tuple(found), ranked, bar_for(scores), candidates.num_found)

    async def _decision(self, reading: _Reading) -> _Decision:
        """Let the model decide yes or no from the best quotes, where it is asked for and their passages allow it."""
        picked = chosen(reading.ranked, min(self.options.sentences, MOST_READ), reading.bar)
        if self.verdicts is None or not picked or not asks_yes_or_no(self.question.stem):
            return _Decision()
        missing = await asyncio.to_thread(_missing_in, self.question.stem, reading.passages, picked)
        if missing:
            return _Decision(undecided=lacking(missing))
        sentences = [EvidenceSentence(place, one.line, one.candidate.subject) for place, one in enumerate(picked, 1)]
        try:
            word = (await self.verdicts.verdict(self.question.stem, sentences)).word
        except ModelError as error:
            return _Decision(fault=error.message)
        usage = self.verdicts.generations.usage
        if word == UNCLEAR:
            return _Decision(undecided=UNSETTLED, usage=usage)
        return _Decision(word, frozenset(one.candidate.source for one in picked), usage)

    def _quoted(self, reading: _Reading, decision: _Decision) -> Iterator[Event]:
        details = self._details(reading.gathered) | reading.record
        picked = chosen(reading.ranked, self.options.sentences, reading.bar)
        if not picked:
            yield from abstention(reading.lack, details, outcome="abstained")
            return
        if self.by_paper:
            papers = [reading.passages[one.candidate.source].document.paper for one in picked]
            picked = [one for _, one in sorted(zip(papers, picked, strict=True), key=lambda p: papers.index(p[0]))]
        quotes = _Quotes(reading.passages, tuple(picked))
        shown = decision.opening(quotes) + quotes.text
        yield from _text_events(shown)
        outcome: AnswerOutcome = "answered"
        if asks_yes_or_no(self.question.stem):
            note = notice(decision.note, shown)
            shown, outcome = shown + note.text, "partial"
            yield note
        plain = f"{decision.word}, probably. {quotes.plain}" if decision.word else quotes.plain
        yield from self._end(quotes, shown, _Ending(plain, outcome, details, decision.usage))

    def _choice(self, reading: _Reading, details: Mapping[str, Any]) -> Iterator[Event]:
        """Name the choice that a sentence supports, followed by the sentence."""
        question = self.question
        support: ChoiceSupport = supported_choice(question.stem, question.choices, reading.ranked, reading.bar)
        if support.sentence is None:
            reason = f"{support.reason} {reading.where}".strip() if support.reason else reading.lack
            yield from abstention(reason, {**details, "answer_letter": ""}, outcome="abstained")
            return
        letter = question.letters[support.place]
        answer = question.shown(letter)
        quotes = _Quotes(reading.passages, (support.sentence,))
        shown = f"{answer}\n\n{quotes.text}"
        yield from _text_events(shown)
        yield from self._end(quotes, shown, _Ending(answer, "answered", {**details, "answer_letter": letter}))

    def _end(self, quotes: _Quotes, shown: str, answer: _Ending) -> Iterator[Event]:
        if self.options.references:
            text, references = render(quotes.numbered, True, len(shown))
            yield TextDelta(text, is_ours=True)
            yield Evidence(references)
        details = {**answer.details, "abstained": False, "citations": quotes.records, "cited": list(quotes.numbers)}
        yield Done(
            answer=answer.text,
            finish_reason="stop",
            stop_reason=None,
            usage=answer.usage,
            details=details,
            outcome=answer.outcome,
        )

    def _details(self, gathered: Gathered) -> dict[str, Any]:
        return {
            "method": self.method,
            "synthesis": "extractive",
            "options": asdict(self.options),
            "form": self.question.form,
            "choices": list(self.question.choices),
            "namespaces": list(gathered.namespaces),
            "retriever": gathered.retriever,
            "rankers": list(gathered.rankers),
            "missing_rankers": list(gathered.missing),
            "expanded": gathered.expanded_record,
            "retrieval_s": round(gathered.seconds, 4),
        }


@dataclass(frozen=True, slots=True)
class _Ending:
    """Hold the answer without marks, its outcome and the record for the trace."""

    text: str
    outcome: AnswerOutcome
    details: Mapping[str, Any]
    usage: LoopUsage = NO_USAGE


@dataclass(frozen=True, slots=True)
class _Decision:
    """Hold the model's yes or no, "" for none, and the places of the passages whose quotes it read.

    ``undecided`` says why the quotes decide nothing, ``fault`` is the error of the engine: "" for none.
    """

    word: str = ""
    read: frozenset[int] = frozenset()
    usage: LoopUsage = NO_USAGE
    undecided: str = ""
    fault: str = ""

    def opening(self, quotes: _Quotes) -> str:
        """Return the line before the quotes, with the numbers of the passages that were read for it."""
        marks = " ".join(f"[{number}]" for number, place in quotes.numbers.items() if place in self.read)
        return f"{self.word}, probably {marks}.\n" if self.word else ""

    @property
    def note(self) -> str:
        return self.undecided or (SMALL_VERDICT if self.word else NO_VERDICT)


def _missing_in(question: str, passages: Sequence[RankedPassage], picked: Sequence[ScoredSentence]) -> str:
    """Return a name of the question that no passage quoted has, so that they decide nothing; "" for none."""
    quoted = {one.candidate.source for one in picked}
    sources = [Source(embedded_title(one.passage), one.passage.text) for one in passages]
    read = [sources[place] for place in sorted(quoted)]
    others = [source for place, source in enumerate(sources) if place not in quoted]
    joined = Source(" ".join(one.title for one in read), " ".join(one.text for one in read))
    return missing_name(question, [joined, *others], 0)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Hold the passages and their sentences, best first."""

    gathered: Gathered
    passages: tuple[RankedPassage, ...]
    ranked: tuple[ScoredSentence, ...]
    bar: float
    num_sentences: int

    @property
    def best(self) -> float:
        return max((one.score for one in self.ranked), default=0.0)

    @property
    def where(self) -> str:
        number = counted(len(self.passages), "passage")
        return f"Searched: {listed(self.gathered.namespaces)} ({number}, {counted(self.num_sentences, 'sentence')})."

    @property
    def lack(self) -> str:
        return f"No passage that was found answers this question. {self.where}"

    @property
    def record(self) -> dict[str, Any]:
        best = [{"text": one.line, "score": round(one.score, 4)} for one in self.ranked[:10]]
        return {"num_passages": len(self.passages), "bar": self.bar, "sentences": best}


@dataclass(frozen=True, slots=True)
class _Quotes:
    """Hold the sentences of an answer; passages are numbered in the order in which they are quoted."""

    passages: tuple[RankedPassage, ...]
    picked: tuple[ScoredSentence, ...]
    numbers: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        places = dict.fromkeys(one.candidate.source for one in self.picked)
        object.__setattr__(self, "numbers", dict(enumerate(places, 1)))

    @property
    def text(self) -> str:
        numbers = {place: number for number, place in self.numbers.items()}
        return "\n".join(f"{_about(one)}{quotation(one.line)} [{numbers[one.candidate.source]}]" for one in self.picked)

    @property
    def plain(self) -> str:
        return " ".join(f"{_about(one)}{quotation(one.line)}" for one in self.picked)

    @property
    def numbered(self) -> list[Numbered]:
        return [Numbered(number, self.passages[place]) for number, place in self.numbers.items()]

    @property
    def records(self) -> list[dict[str, Any]]:
        records = []
        for number, place in self.numbers.items():
            found = self.passages[place]
            spans = [
                {"text": one.line, "start": one.candidate.sentence.start, "end": one.candidate.sentence.end}
                for one in self.picked
                if one.candidate.source == place
            ]
            records.append(passage_record(found, number=number, sentences=spans))
        return records


def _about(one: ScoredSentence) -> str:
    """Return what a quoted "it" means, before the quote."""
    return f"{quotation(one.candidate.subject)}: " if one.candidate.subject else ""


def _text_events(text: str) -> Iterator[Event]:
    yield TranscriptDelta(text, "injected")
    yield TextDelta(text)


def _usable(gathered: Gathered) -> list[RankedPassage]:
    """Return the passages of all queries by rank, each text once, without those of retracted articles."""
    depth = max(map(len, gathered.lists), default=0)
    in_turn = [found[rank] for rank in range(depth) for found in gathered.lists if rank < len(found)]
    return [one for _, one in distinct(in_turn) if not one.document.retracted_by]


def _why_nothing(gathered: Gathered) -> tuple[str, AnswerOutcome]:
    if not gathered.namespaces:
        return "There is no namespace on this server that this request may read.", "abstained"
    where = listed(gathered.namespaces)
    if any(gathered.lists):
        return f"All that was found in {where} has been retracted.", "abstained"
    return f"Nothing was found in {where}.", "not_found"


@dataclass(frozen=True, slots=True)
class Quotation:
    """Hold what is needed for one quoted answer."""

    question: ParsedQuestion
    options: MedRagOptions
    quoting: Quoting

    async def events(
        self, passages: Mapping[int, RankedPassage], details: Mapping[str, Any]
    ) -> AsyncGenerator[Event, None]:
        """Yield the whole answer from passages by their numbers, best first."""
        usable = {number: found for number, found in passages.items() if not found.document.is_retracted}
        answer = QuotedAnswer(lack=_RETRACTED if passages else "")
        if usable:
            async with aclosing(self.quoting.events(self._task(usable))) as events:
                async for event in events:
                    if isinstance(event, QuotedAnswer):
                        answer = event
                    else:
                        yield event
        for final_event in self._ending(answer, usable, details):
            yield final_event

    def _task(self, passages: Mapping[int, RankedPassage]) -> QuoteTask:
        return QuoteTask(
            question=self.question.text.removeprefix("Question: "),
            passages=[(number, found.passage.text) for number, found in passages.items()],
            endings=tuple(self._endings),
            max_quotes=self.options.sentences,
            titles={number: embedded_title(found.passage) for number, found in passages.items()},
        )

    @property
    def _endings(self) -> dict[str, str]:
        """Return the letter, or yes or no, of each closing line; {} for an open question."""
        question = self.question
        if question.choices:
            return {f"{MARK} {quoted_line(question.shown(x))}": x for x in question.letters} | {_NO_CHOICE: ""}
        if asks_yes_or_no(question.stem):
            return {f"{MARK} yes": "yes", f"{MARK} no": "no", _NOT_STATED: ""}
        return {}

    def _ending(
        self, answer: QuotedAnswer, passages: Mapping[int, RankedPassage], details: Mapping[str, Any]
    ) -> Iterator[Event]:
        """Yield what follows the quotes: the outcome where it is not a whole answer, and the references."""
        usage = self.quoting.generations.usage
        yield Step(f"{counted(len(answer.quotes), 'quote')} from {counted(answer.num_read, 'passage')} read")
        outcome, reason = self._judged(answer)
        decided = self._endings.get(answer.ending, "")
        record = {**details, "quoted": answer.record} | ({"answer_letter": decided} if self.question.choices else {})
        if not answer.quotes:
            for event in abstention(reason, record, usage, outcome):
                yield replace(event, finish_reason=answer.finish_reason) if isinstance(event, Done) else event
            return
        shown = answer.text
        if reason:
            note = notice(reason, shown)
            shown += note.text
            yield note
        cited = list(dict.fromkeys(quote.number for quote in answer.quotes))
        if self.options.references:
            text, references = render([Numbered(n, passages[n]) for n in cited], True, len(shown))
            yield TextDelta(text, is_ours=True)
            yield Evidence(references)
        yield Done(
            answer=self._plain(answer, decided),
            finish_reason=answer.finish_reason,
            stop_reason=answer.stop_reason,
            usage=usage,
            details={**record, "abstained": False, "citations": _citations(answer, passages), "cited": cited},
            outcome=outcome,
        )

    def _judged(self, answer: QuotedAnswer) -> tuple[AnswerOutcome, str]:
        left_open = _OPEN_LEFT.get(answer.ending)
        return ("partial", left_open) if left_open else (answer.outcome, answer.reason)

    def _plain(self, answer: QuotedAnswer, decided: str) -> str:
        if self.question.choices and decided:
            return self.question.shown(decided)
        return " ".join([*([f"{decided.capitalize()}."] if decided else []), *(quote.text for quote in answer.quotes)])


def _citations(answer: QuotedAnswer, passages: Mapping[int, RankedPassage]) -> list[dict[str, Any]]:
    spans: dict[int, list[dict[str, Any]]] = {}
    for quote in answer.quotes:
        spans.setdefault(quote.number, []).append({"text": quote.text, "start": quote.start, "end": quote.end})
    return [passage_record(passages[n], number=n, sentences=found) for n, found in spans.items()]
