"""Answer by the method whose evidence answers the question.

1. where GeneGPT has a look-up plan for the question and finds records, these are the evidence     ``_choice``
   it reads genes of a disease, behind the graph, and other questions where nothing may answer
2. else graph, passages and articles are searched, each by its own method, up to what it would
   answer from: the graph up to its statements of what is asked, articles to their quotes           ``Candidate``
3. the verifier judges them, and the likeliest to answer is the evidence; articles, which cost most,
   are searched where neither graph nor passages may answer                                         ``_searched``
4. that method goes on to its answer; the others are closed, and offered with what they found

Greetings, and what no source answers, go to the plain model where it chats. Otherwise the method that is nearest says
itself that it found nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from models.card import ModelCard
from models.decoding.types import LoopUsage
from models.errors import ArrowheadError
from retrieval.lexical.question_keywords import parse_marked
from server.methods.base import (
    AUTO,
    DIRECT,
    AnswerRequest,
    CallReplied,
    Done,
    Event,
    EvidenceRead,
    Method,
    OptionInvalid,
    Source,
    Step,
    add_usage,
)
from server.methods.genegpt.questions import ParsedQuestion, QuestionReader
from server.methods.shared.choices import listed_choices, one_line
from server.methods.shared.conversation.notes import MessageReader
from server.methods.shared.identifiers import Identifier, IdentifierIndex, identifiers_in, is_common, tokens_of
from server.methods.shared.reading.evidence import EvidenceText
from server.methods.shared.reading.gate import Gate, quote_answers_alone, several_sources
from server.methods.shared.synthesis import served_syntheses
from server.methods.shared.verdicts import MOST_READ

# What each method answers from.
_SOURCES: Final[Mapping[str, str]] = {
    "genegpt": "NCBI's records",
    "kg-rag": "the graph",
    "medrag": "passages",
    "weiseeule": "passages with the marked keywords",
    "clinfo": "articles",
}
# The methods that take each option.
_OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "namespaces": frozenset({"medrag", "weiseeule"}),
    "egress": frozenset({"genegpt", "kg-rag", "clinfo"}),
    "references": frozenset(_SOURCES),
    "methods": frozenset(),
}
# They find their evidence to the end without the model; one that writes by itself does so once it is chosen.
_EXTRACTED: Final = frozenset({"kg-rag", "clinfo"})
# ``sure``: it answers; ``maybe``: some of it is above the verifier's bar of quotes.
Answering = Literal["sure", "maybe", "no"]


class Candidate:
    """Run one method up to its evidence, hold it there, and let it go on where it is chosen.

    ``found`` is None until all is searched. ``probability`` is that the evidence answers, None where the verifier did
    not judge it; ``fault``: why it could not.
    """

    def __init__(self, method: Method, ask: AnswerRequest, *, is_written: bool) -> None:
        self.name = method.name
        self.found: bool | None = None
        self.answering: Answering = "no"
        self.probability: float | None = None
        self.fault = ""
        self._sources: tuple[Source, ...] = ()
        self._quoted: Sequence[str] = ()
        self._held: list[Event] = []
        self._method, self._ask = method, ask
        self._is_again = method.name in _EXTRACTED and is_written
        extractive = {**ask.options, "synthesis": "extractive"}
        self._events = method.answer(replace(ask, options=extractive) if self._is_again else ask)

    async def look_up(self) -> None:
        """Advance GeneGPT to the first records that a call reads, or to its end."""
        async for event in self._until_fault():
            if isinstance(event, CallReplied) and event.status == "ok" and event.record.get("endpoint") != "esearch":
                self.found = bool(event.record.get("num_records"))
            if self.found:
                self.answering = "sure"
                return

    async def read_out(self) -> None:
        """Advance GeneGPT to its end; what it answered is an answer."""
        async for event in self._until_fault():
            if isinstance(event, Done):
                self.found = event.outcome == "answered"
        self.answering = "sure" if self.found else "no"

    async def judge(self, gate: Gate, question: str) -> None:
        """Advance to the evidence, and let the verifier judge it."""
        async for event in self._until_fault():
            match event:
                case EvidenceRead(sources=sources):
                    self.found, self._sources = bool(sources), sources
                    if self.name not in _EXTRACTED:
                        break
                case Done():
                    self._judged(event)
        self.found = bool(self.found)
        if self.probability is None and self.answering != "sure" and self._is_open:
            try:
                await self._read(gate, question)
            except ArrowheadError as error:
                self.fault = error.message

    async def answer(self) -> AsyncGenerator[Event, None]:
        """Yield the whole answer."""
        if self._is_again:
            await self.close()
            self._held, self._events = [], self._method.answer(self._ask)
        for event in self._held:
            yield event
        async with aclosing(self._events) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        await self._events.aclose()

    def has_one_of(self, names: Sequence[Identifier]) -> bool:
        """Return whether its evidence has one of the names; True where there are none."""
        texts = (text for one in self._sources for text in (one.title, one.text, *one.records))
        return not names or any(map(IdentifierIndex("\n".join(texts)).has, names))

    def is_about(self, subjects: Sequence[frozenset[str]]) -> bool:
        """Return whether the texts that it would quote have a word of a subject; True where there are none."""
        words = {word for text in self._quoted for word in tokens_of(text)}
        return not subjects or any(not words.isdisjoint(subject) for subject in subjects)

    @property
    def is_exact(self) -> bool:
        """Return whether its statements are of just the relation that is asked for, which no verifier has to judge."""
        return self.answering == "sure" and self.probability is None

    @property
    def record(self) -> dict[str, Any]:
        known = self.probability and round(self.probability, 4)
        return {"method": self.name, "found": self.found, "probability": known}

    @property
    def usage(self) -> LoopUsage:
        return self._done.usage if self._done else LoopUsage()

    @property
    def _done(self) -> Done | None:
        return next((event for event in self._held if isinstance(event, Done)), None)

    @property
    def _is_open(self) -> bool:
        """Return whether the method left it open if its evidence answers."""
        return self._done is None or self._done.outcome == "partial"

    def _judged(self, done: Done) -> None:
        """Take what an extracted answer says of its evidence: articles were judged, the graph's statements match."""
        best = done.details.get("best")
        if best is not None and done.outcome in ("answered", "partial"):
            self.probability = float(best)
            self.answering = "sure" if self.probability >= done.details["bar"] else "maybe"
            self._quoted = [f"{one.title}\n{one.text}" for one in self._sources]
        elif self.name == "kg-rag" and (done.outcome == "answered" or done.details.get("excluded")):
            self.answering = "sure"

    async def _read(self, gate: Gate, question: str) -> None:
        texts = [
            EvidenceText(one.title, text)
            for one in self._sources
            if one.status == "current"
            for text in one.records or (one.text,)
        ]
        if not texts:
            return
        reading = await gate.read(question, texts)
        self.probability = reading.best
        quotes = reading.quotes(MOST_READ)
        self.answering = "sure" if reading.is_answered else "maybe" if quotes else "no"
        self._quoted = [f"{texts[one.evidence.source].title}\n{texts[one.evidence.source].text}" for one in quotes]

    async def _until_fault(self) -> AsyncGenerator[Event, None]:
        """Yield and hold the events; what fails is raised again where the method is chosen all the same."""
        try:
            async for event in self._events:
                self._held.append(event)
                yield event
        except ArrowheadError as error:
            self._events = _failing(error)


async def _failing(error: ArrowheadError) -> AsyncGenerator[Event, None]:
    raise error
    yield  # the protocol wants a generator


@dataclass(frozen=True, slots=True)
class Choice:
    """Hold the chosen method, why, and the candidate that goes on; None for the plain model."""

    name: str
    why: str
    candidate: Candidate | None = None


@dataclass(frozen=True, slots=True)
class AutoReaders:
    """Hold what reads; ``subjects_in`` blocks, and returns for each thing that a question names the words for it."""

    gate: Gate
    messages: MessageReader
    questions: QuestionReader
    subjects_in: Callable[[str], Sequence[frozenset[str]]]


class Auto:
    """Choose the method by the evidence; ``methods`` has each by its name, the plain model under ``direct``."""

    name = AUTO
    description = "Auto: searches the sources in turn, and answers by the method whose evidence answers, saying which"

    def __init__(self, methods: Mapping[str, Method], card: ModelCard, readers: AutoReaders) -> None:
        self._methods = methods
        self._card = card
        self._readers = readers

    def check(self, ask: AnswerRequest) -> None:
        for key in ask.options:
            if key not in _OPTIONS:
                raise OptionInvalid(
                    f"arrowhead.{key}: Auto has no such option; its options are {', '.join(_OPTIONS)}; name a method "
                    "to use its own",
                    param=f"arrowhead.{key}",
                )
        ask = _restricted(ask)
        faults = [self._fault(name, ask) for name in (DIRECT, *self._names(ask))]
        if all(faults):
            raise next(fault for fault in reversed(faults) if fault)

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        ask = _restricted(ask)
        candidates = {
            name: Candidate(
                self._methods[name], _ask_of(name, ask), is_written="extractive" not in self._syntheses(name)[:1]
            )
            for name in self._names(ask)
            if self._fault(name, ask) is None
        }
        try:
            with several_sources():
                choice = await self._choice(ask, candidates)
                for one in candidates.values():
                    if one is not choice.candidate:
                        await one.close()
                yield Step(choice.why)
                chosen = choice.candidate
                stream = self._methods[DIRECT].answer(_ask_of(DIRECT, ask)) if chosen is None else chosen.answer()
                others = [one for one in candidates.values() if one is not chosen]
                async with aclosing(stream) as events:
                    async for event in events:
                        yield _with_record(event, choice, others)
        finally:
            for one in candidates.values():
                await one.close()

    def _syntheses(self, name: str) -> Sequence[str]:
        return served_syntheses(name, self._card)

    def _names(self, ask: AnswerRequest) -> list[str]:
        """Return the methods that are asked, of those that the request may use; marked keywords are WeiseEule's."""
        passages = "weiseeule" if parse_marked(ask.question) else "medrag"
        wanted = ("genegpt", "kg-rag", passages, "clinfo")
        return [name for name in wanted if ask.methods is None or name in ask.methods]

    def _fault(self, name: str, ask: AnswerRequest) -> ArrowheadError | None:
        """Return why a method cannot answer the request, None where it can."""
        if ask.methods is not None and name not in ask.methods:
            return OptionInvalid(f"this key, or arrowhead.methods, leaves {name} out", param="model")
        try:
            self._methods[name].check(_ask_of(name, ask))
        except ArrowheadError as error:
            return error
        return None

    async def _choice(self, ask: AnswerRequest, candidates: Mapping[str, Candidate]) -> Choice:
        can_chat = self._fault(DIRECT, ask) is None
        reading = await self._readers.messages.read(ask.question) if can_chat else None
        if not candidates or (reading is not None and reading.is_greeting):
            return Choice(DIRECT, "answered by the model alone: this asks for no evidence")
        genes = candidates.get("genegpt")
        parsed = self._readers.questions.read(ask.question)
        has_plan = genes is not None and parsed.is_plan
        if genes is not None and has_plan:
            await genes.look_up()
            if genes.found:
                return Choice(genes.name, "answered by genegpt: it found NCBI's records of what is asked", genes)
        rest = [one for one in candidates.values() if one is not genes]
        names = _asked_names(parsed, has_plan, _stem(ask))
        best = await self._searched(ask, rest, names)
        is_found = best is not None and (best.is_exact or not parsed.is_of_disease)
        if genes is not None and not has_plan and parsed.is_readable and not is_found:
            await genes.read_out()
            if genes.found:
                return Choice(genes.name, "answered by genegpt: NCBI's records have what is asked", genes)
        if best is not None:
            return Choice(best.name, _why(best), best)
        fault = next((one.fault for one in rest if one.fault), "")
        why = f"what was found could not be judged: {fault}" if fault else "nothing that was found answers this"
        if can_chat and not fault:
            return Choice(DIRECT, f"answered by the model alone: {why}")
        # What was read to its end has its quotes already, though they are of something else.
        quoted = [one for one in rest if one.name in _EXTRACTED and one.answering == "maybe"]
        read = [one for one in rest if one.fault] or [one for one in rest if one not in quoted] or rest
        quote_answers_alone()
        nearest = genes if genes is not None and names else max(read, key=_likelihood, default=genes)
        name = nearest.name if nearest else DIRECT
        return Choice(name, f"answered by {name}: {why}", nearest)

    async def _searched(
        self, ask: AnswerRequest, candidates: Sequence[Candidate], names: Sequence[Identifier]
    ) -> Candidate | None:
        """Return the candidate whose evidence answers best, None where none may, or none has one of the names.

        What only may answer has to name a subject of the question: a verifier may take metformin for methotrexate.
        They are read in their order, which is that of their cost, up to the first whose evidence may answer.
        """
        question = _stem(ask)
        subjects = await asyncio.to_thread(self._readers.subjects_in, question)

        def fits(one: Candidate) -> bool:
            return one.is_exact or (one.has_one_of(names) and (one.answering == "sure" or one.is_about(subjects)))

        tasks: list[asyncio.Task[None]] = []
        try:
            for one in candidates:
                tasks.append(asyncio.create_task(one.judge(self._readers.gate, question)))
                # The graph is read beside what comes next, which takes longer.
                if one.name == "kg-rag" and one is not candidates[-1]:
                    continue
                pending = set(tasks)
                while pending and not any(each.is_exact for each in candidates):
                    done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
                if any(each.answering != "no" and fits(each) for each in candidates):
                    break
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        best = max(filter(fits, candidates), key=_likelihood, default=None)
        return None if best is None or best.answering == "no" else best


def _likelihood(one: Candidate) -> tuple[bool, float]:
    return one.is_exact, one.probability or 0.0


def _why(one: Candidate) -> str:
    does = "answers" if one.answering == "sure" else "may answer"
    known = "" if one.probability is None else f", with a probability of {one.probability:.2f}"
    return f"answered by {one.name}: of what was found, evidence of {_SOURCES[one.name]} {does} the question{known}"


def _asked_names(parsed: ParsedQuestion, has_plan: bool, question: str) -> list[Identifier]:
    """Return what is looked up for the question, else its identifiers, without abbreviations that texts spell out."""
    if has_plan:
        return [Identifier(one.subject, "symbol", 0, 0) for one in parsed.parts or (parsed,)]
    return [one for one in identifiers_in(question) if not is_common(one)]


def _stem(ask: AnswerRequest) -> str:
    """Return the question as methods judge evidence for it, without its choices."""
    _, stem = listed_choices(ask.question)
    return one_line(stem) or one_line(ask.question)


def _restricted(ask: AnswerRequest) -> AnswerRequest:
    """Return the request with those methods of the key that its option ``methods`` names, all where it names none.

    Raises:
        OptionInvalid: the option is no list of methods that Auto chooses from.
    """
    wanted = ask.options.get("methods")
    if wanted is None:
        return ask
    known = (*_SOURCES, DIRECT)
    if not isinstance(wanted, list) or not wanted or not all(one in known for one in wanted):
        raise OptionInvalid(
            f"arrowhead.methods: a list of the methods that Auto may choose from, of {', '.join(known)}",
            param="arrowhead.methods",
        )
    return replace(ask, methods=frozenset(wanted) if ask.methods is None else ask.methods.intersection(wanted))


def _ask_of(name: str, ask: AnswerRequest) -> AnswerRequest:
    """Return the request for one method: with its options; namespaces are searched for passages alone."""
    options = {key: value for key, value in ask.options.items() if name in _OPTIONS.get(key, ())}
    namespaces = frozenset() if name == "clinfo" else ask.namespaces
    return replace(ask, options=options, namespaces=namespaces, keeps_here=ask.options.get("egress") == "off")


def _with_record(event: Event, choice: Choice, others: Sequence[Candidate]) -> Event:
    """Return the end of the answer with the choice, and with the tokens that the others took."""
    if not isinstance(event, Done):
        return event
    usage = event.usage
    for one in others:
        usage = add_usage(one.usage, usage)
    record = {"answered_by": choice.name, "alternatives": [one.record for one in others]}
    return replace(event, details={**event.details, **record}, usage=usage)
