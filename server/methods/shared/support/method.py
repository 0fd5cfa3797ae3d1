"""Wrap a method so that each sentence of its answers is labelled with what it rests on.

The model's text passes as it comes. Only a request for it changes the text: ``mark`` puts a word behind what no source
has, ``strict`` has unsupported sentences written again, under a grammar of what was read, and leaves out what stays so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, get_args

from models.decoding.types import LoopUsage
from server.methods.base import (
    AnswerRequest,
    CallReplied,
    Done,
    Event,
    Evidence,
    EvidenceRead,
    Method,
    OptionInvalid,
    Reference,
    SentenceSupport,
    Source,
    Step,
    Support,
    TextDelta,
    TranscriptDelta,
    add_usage,
)
from server.methods.shared.outcomes import notice
from server.methods.shared.support.labels import AnswerLabels, line_on, outcome_of, rests_on_nothing
from server.methods.shared.support.marking import MarkedText
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.rewriting import Rewriter, Rewritten, rewritten
from server.methods.shared.support.verifier import ClaimVerifier

GroundedMode = Literal["label", "mark", "strict", "off"]
GROUNDED_MODES: Final[tuple[GroundedMode, ...]] = get_args(GroundedMode)
_OPTION: Final = "grounded"


class SupportedMethod:
    """Wrap a ``Method`` and label its answers; the option ``grounded`` is the wrapper's own.

    ``verifier`` None: sentences are held against what they cite by their numbers and identifiers alone.
    """

    def __init__(
        self, inner: Method, reader: QuantityReader, rewriter: Rewriter, verifier: ClaimVerifier | None = None
    ) -> None:
        self._inner = inner
        self._reader = reader
        self._rewriter = rewriter
        self._verifier = verifier
        self.name = inner.name
        self.description = inner.description

    def check(self, ask: AnswerRequest) -> None:
        if ask.options.get(_OPTION, "label") not in GROUNDED_MODES:
            known = ", ".join(GROUNDED_MODES)
            raise OptionInvalid(f"arrowhead.{_OPTION}: must be one of {known}", param=f"arrowhead.{_OPTION}")
        self._inner.check(_without_option(ask))

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        mode: GroundedMode = ask.options.get(_OPTION, "label")
        inner = self._inner.answer(_without_option(ask))
        match mode:
            case "off":
                events = inner
            case "strict":
                events = self._strict(ask, inner)
            case "label" | "mark":
                events = self._labelled(ask, inner, is_marked=mode == "mark")
        async with aclosing(events) as answering:
            async for event in answering:
                yield event

    async def _labelled(
        self, ask: AnswerRequest, inner: AsyncGenerator[Event, None], *, is_marked: bool
    ) -> AsyncGenerator[Event, None]:
        """Yield the answer as it comes, and a line on what its sources do not have before the server's own ending."""
        answer = _Answer(ask, MarkedText(_question(ask), self._reader) if is_marked else None)
        async with aclosing(inner) as events:
            async for event in events:
                answer.read(event)
                if answer.ends_with(event):
                    if rest := answer.flush():
                        yield TextDelta(rest)
                    labels = await self._labels(ask, answer)
                    if note := answer.close(labels):
                        yield note
                yield answer.shown(event)

    def _labelling(self, ask: AnswerRequest, answer: _Answer) -> Callable[[str], AnswerLabels]:
        """Return what labels a text by the sources of an answer."""
        is_strict = ask.options.get(_OPTION) == "strict"
        return partial(
            AnswerLabels, sources=answer.sources, question=_question(ask), reader=self._reader, is_strict=is_strict
        )

    async def _labels(self, ask: AnswerRequest, answer: _Answer) -> _Labels:
        labels = await asyncio.to_thread(self._labelling(ask, answer), answer.text)
        sentences, usage = labels.sentences, LoopUsage()
        claims = labels.claims() if self._verifier is not None else []
        if self._verifier is not None and claims:
            verification = await self._verifier.verify(ask, [claim for _, claim in claims])
            sentences = labels.verified([place for place, _ in claims], verification)
            usage = verification.usage
        can_cite = any(source.number is not None for source in answer.sources)
        return _Labels(Support(sentences), can_cite and rests_on_nothing(sentences), usage)

    async def _strict(self, ask: AnswerRequest, inner: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        answer, held = _Answer(ask), list[Event]()
        async with aclosing(inner) as events:
            async for event in events:
                answer.read(event)
                match event:
                    case TextDelta(channel="answer") | Evidence() | Done():
                        answer.shown(event)
                        held.append(event)
                    case _:
                        yield event
        if not answer.text:
            for event in held:
                yield event
            return
        labels = await self._labels(ask, answer)
        again = Rewritten(answer.text)
        if labels.support.unsupported:
            yield Step(f"sentences that nothing which was read supports: {len(labels.support.unsupported)}")
            again = await rewritten(ask, answer.text, labels.support, self._rewriter, self._labelling(ask, answer))
        for event in _replaced(held, answer, again, labels):
            yield event


@dataclass(frozen=True, slots=True)
class _Labels:
    """Hold the labels of an answer, whether it rests on nothing, and the tokens that a verifier took."""

    support: Support
    is_uncited: bool = False
    usage: LoopUsage = field(default_factory=LoopUsage)


class _Answer:
    """Follow one answer: its sources, the model's text, and where that stands in what is shown."""

    def __init__(self, ask: AnswerRequest, marked: MarkedText | None = None) -> None:
        self.sources: list[Source] = []
        self.text = ""
        self._marked = marked
        self._injected: Source | None = None
        self._before = 0
        self._added = 0
        self._labels: _Labels | None = None

    def read(self, event: Event) -> None:
        """Take in what an event says of sources."""
        match event:
            case EvidenceRead(sources=sources):
                self.sources += sources
            case TranscriptDelta(origin="injected", text=text):
                self._injected = Source(text)
                self.sources.append(self._injected)
            case CallReplied(record=record) if self.sources and self.sources[-1] is self._injected:
                records = tuple(f"{one['title']}\n{one['text']}" for one in record.get("records") or ())
                self.sources[-1] = replace(self.sources[-1], records=records)
            case _:
                return
        if self._marked is not None:
            self._marked.set_sources(self.sources)

    def ends_with(self, event: Event) -> bool:
        """Return whether the model's text is complete before an event: the server's own text or the end follows it."""
        match event:
            case Done() | TextDelta(channel="answer", is_ours=True):
                return bool(self.text) and self._labels is None
        return False

    def flush(self) -> str:
        """Return text that was held back to be marked."""
        return self._marked.flush() if self._marked is not None else ""

    def close(self, labels: _Labels) -> TextDelta | None:
        """Take the labels; return the line that follows the text, None where nothing is to be said."""
        self._labels = labels
        line = line_on(self.text, labels.support, is_uncited=labels.is_uncited)
        if not line:
            return None
        note = notice(line, self.text)
        self._added = len(note.text)
        return note

    def shown(self, event: Event) -> Event:
        """Return an event as it is shown with marks and line, labels in ``Done``."""
        match event:
            case TextDelta(channel="answer", is_ours=True):
                self._before += 0 if self.text else len(event.text)
            case TextDelta(channel="answer", text=text):
                self.text += text
                return event if self._marked is None else replace(event, text=self._marked.feed(text))
            case Evidence(references=references):
                return Evidence(tuple(_moved(one, self._num_inserted + self._added) for one in references))
            case Done() if self._labels is not None:
                labels = self._labels
                sentences = tuple(self._placed(one) for one in labels.support.sentences)
                support = replace(labels.support, sentences=sentences)
                outcome = outcome_of(event.outcome, support, is_uncited=labels.is_uncited)
                return replace(event, support=support, outcome=outcome, usage=add_usage(event.usage, labels.usage))
        return event

    @property
    def _num_inserted(self) -> int:
        return self._marked.num_inserted(len(self.text)) if self._marked is not None else 0

    def _placed(self, one: SentenceSupport) -> SentenceSupport:
        start, end = one.start, one.end
        if self._marked is not None:
            start, end = start + self._marked.num_inserted(start), end + self._marked.num_inserted(end)
        return replace(one, start=start + self._before, end=end + self._before)


def _moved(reference: Reference, by: int) -> Reference:
    return replace(reference, start=reference.start + by, end=reference.end + by) if reference.end else reference


def _replaced(held: Sequence[Event], answer: _Answer, again: Rewritten, labels: _Labels) -> Iterator[Event]:
    """Yield the held events with the text of a strictly grounded answer."""
    is_changed = bool(again.count or again.dropped)
    text = again.text or again.reason
    line = again.line if is_changed and again.text else ""
    note = notice(line, text) if line else None
    shift = len(text) + (len(note.text) if note else 0) - len(answer.text)
    is_told = False
    for event in held:
        match event:
            case TextDelta(is_ours=False):
                if not is_told:
                    yield TextDelta(text, is_ours=not again.text)
                    if note is not None:
                        yield note
                is_told = True
            case Evidence(references=references):
                yield Evidence(tuple(_moved(one, shift) for one in references))
            case Done():
                yield _strict_done(event, again, labels)
            case _ if again.text or not is_told:
                yield event


def _strict_done(done: Done, again: Rewritten, labels: _Labels) -> Done:
    usage = add_usage(add_usage(done.usage, labels.usage), again.usage)
    if not (again.count or again.dropped):
        outcome = outcome_of(done.outcome, labels.support, is_uncited=labels.is_uncited)
        return replace(done, support=labels.support, outcome=outcome, usage=usage)
    support = replace(again.support, rewritten=again.count, dropped=again.dropped)
    details = {**done.details, "first_answer": done.answer}
    if not again.text:
        details |= {"abstained": True, "reason": again.reason}
        return replace(done, answer=again.reason, outcome="abstained", support=support, usage=usage, details=details)
    outcome = "partial" if done.outcome == "answered" else done.outcome
    return replace(done, answer=again.plain, outcome=outcome, support=support, usage=usage, details=details)


def _question(ask: AnswerRequest) -> str:
    """Return all that the user wrote: what stands there is not the model's own."""
    return ask.prompt or "\n".join(turn.content for turn in ask.messages if turn.role != "assistant")


def _without_option(ask: AnswerRequest) -> AnswerRequest:
    return replace(ask, options={name: value for name, value in ask.options.items() if name != _OPTION})
