"""Sanitize the visible text of an answer's events, without I/O, and leave the transcript unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from server.methods.base import Channel, Done, Event, Evidence, Reference, Step, TextDelta, TranscriptDelta
from server.safe_text import SafeText, safe_text


class SafeEvents:
    """Sanitize the events of one answer, in order; references still point at their markers."""

    def __init__(self) -> None:
        self._texts: dict[Channel, SafeText] = {"answer": SafeText(), "reasoning": SafeText()}

    def of(self, event: Event) -> Iterator[Event]:
        match event:
            case TextDelta(text=text, channel=channel):
                if channel == "answer":
                    yield from self._rest_of("reasoning")
                shown = self._texts[channel].feed(text)
                if shown or event.logprobs or not text:
                    yield replace(event, text=shown)
            case TranscriptDelta():
                yield event
            case Step(text=text):
                thoughts = self._texts["reasoning"]
                yield Step(thoughts.feed(text) + thoughts.flush())
            case Evidence(references=references):
                yield from self._rest_of("reasoning", "answer")
                yield Evidence(tuple(self._moved(reference) for reference in references))
            case Done(answer=answer):
                yield from self._rest_of("reasoning", "answer")
                yield replace(event, answer=safe_text(answer))
            case _:
                yield from self._rest_of("reasoning")
                yield event

    def _rest_of(self, *channels: Channel) -> Iterator[Event]:
        for channel in channels:
            if rest := self._texts[channel].flush():
                yield TextDelta(rest, channel)

    def _moved(self, reference: Reference) -> Reference:
        place = self._texts["answer"].place
        return replace(
            reference,
            start=place(reference.start),
            end=place(reference.end - 1) + 1 if reference.end else 0,
            title=safe_text(reference.title),
            text=safe_text(reference.text),
        )
