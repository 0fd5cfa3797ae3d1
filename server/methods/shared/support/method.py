"""Wrap a method so that each sentence of its answers is labelled with what it rests on.

The model's text passes as it comes, but where a request wants it ``strict``: then unsupported sentences are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
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
    Source,
    Support,
    TextDelta,
    TranscriptDelta,
    add_usage,
)
from server.methods.shared.outcomes import notice
from server.methods.shared.support.labels import AnswerLabels, line_on, outcome_of, rests_on_nothing
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.strict import without_unsupported
from server.methods.shared.support.verifier import ClaimVerifier

GroundedMode = Literal["label", "strict", "off"]
GROUNDED_MODES: Final[tuple[GroundedMode, ...]] = get_args(GroundedMode)
_OPTION: Final = "grounded"


class SupportedMethod:
    """Wrap a ``Method`` and label its answers; the option ``grounded`` is the wrapper's own.

    ``verifier`` None: sentences are held against what they cite by their numbers and identifiers alone.
    """

    def __init__(self, inner: Method, reader: QuantityReader, verifier: ClaimVerifier | None = None) -> None:
        self._inner = inner
        self._reader = reader
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
            case "label":
                events = self._labelled(ask, inner)
        async with aclosing(events) as answering:
            async for event in answering:
                yield event

    async def _labelled(self, ask: AnswerRequest, inner: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """Yield the answer as it comes, and a line on what its sources do not have before the server's own ending."""
        answer = _Answer()
        async with aclosing(inner) as events:
            async for event in events:
                answer.read(event)
                if answer.ends_with(event) and (note := answer.close(await self._labels(ask, answer))):
                    yield note
                yield answer.shown(event)

    async def _labels(self, ask: AnswerRequest, answer: _Answer) -> _Labels:
        is_strict = ask.options.get(_OPTION) == "strict"
        labels = await asyncio.to_thread(
            AnswerLabels, answer.text, answer.sources, _question(ask), self._reader, is_strict=is_strict
        )
        sentences, usage = labels.sentences, LoopUsage()
        claims = labels.claims() if self._verifier is not None else []
        if self._verifier is not None and claims:
            verification = await self._verifier.verify(ask, [claim for _, claim in claims])
            sentences = labels.verified([place for place, _ in claims], verification)
            usage = verification.usage
        can_cite = any(source.number is not None for source in answer.sources)
        return _Labels(Support(sentences), can_cite and rests_on_nothing(sentences), usage)

    async def _strict(self, ask: AnswerRequest, inner: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        answer, held = _Answer(), list[Event]()
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
        strict = without_unsupported(answer.text, labels.support)
        for event in strict.replacing([labels.told(event) for event in held], len(strict.text) - len(answer.text)):
            yield event


@dataclass(frozen=True, slots=True)
class _Labels:
    """Hold the labels of an answer, whether it rests on nothing, and the tokens that a verifier took."""

    support: Support
    is_uncited: bool = False
    usage: LoopUsage = field(default_factory=LoopUsage)

    def told(self, event: Event) -> Event:
        """Return the end of the answer with the labels, and every other event as it is."""
        if not isinstance(event, Done):
            return event
        outcome = outcome_of(event.outcome, self.support, is_uncited=self.is_uncited)
        return replace(event, support=self.support, outcome=outcome, usage=add_usage(event.usage, self.usage))


class _Answer:
    """Follow one answer: its sources, the model's text, and where that stands in what is shown."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.text = ""
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

    def ends_with(self, event: Event) -> bool:
        """Return whether the model's text is complete before an event: the server's own text or the end follows it."""
        match event:
            case Done() | TextDelta(channel="answer", is_ours=True):
                return bool(self.text) and self._labels is None
        return False

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
        """Return an event as it is shown behind the line, with labels in ``Done``."""
        match event:
            case TextDelta(channel="answer", is_ours=True):
                self._before += 0 if self.text else len(event.text)
            case TextDelta(channel="answer", text=text):
                self.text += text
            case Evidence(references=references):
                return Evidence(tuple(one.moved(self._added) for one in references))
            case Done() if self._labels is not None:
                placed = (
                    replace(one, start=one.start + self._before, end=one.end + self._before)
                    for one in self._labels.support.sentences
                )
                return replace(self._labels, support=replace(self._labels.support, sentences=tuple(placed))).told(event)
        return event


def _question(ask: AnswerRequest) -> str:
    """Return all that the user wrote: what stands there is not the model's own."""
    return ask.prompt or "\n".join(turn.content for turn in ask.messages if turn.role != "assistant")


def _without_option(ask: AnswerRequest) -> AnswerRequest:
    return replace(ask, options={name: value for name, value in ask.options.items() if name != _OPTION})
