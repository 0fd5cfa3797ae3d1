"""Check each identifier of an answer against what was read, and mark in the text those that stand nowhere.

The check is lexical: it finds names and numbers that the model made up, not wrong statements about the right ones.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final, Literal, get_args

from server.methods.base import (
    AnswerRequest,
    Done,
    Event,
    Evidence,
    EvidenceRead,
    Grounding,
    Method,
    OptionInvalid,
    Reference,
    TextDelta,
    TranscriptDelta,
)
from server.methods.shared.identifiers import EvidenceIndex, identifiers_in
from server.methods.shared.outcomes import notice

MARK: Final = " [unverified]"
# No identifier has more words than this: a number, its unit and what stands before both.
_OPEN_WORDS: Final = 4
_WORD: Final = re.compile(r"\S+")
_MAX_NAMED: Final = 5


class AnswerMarker:
    """Mark the unsupported identifiers of an answer that comes in pieces.

    The result does not depend on where the pieces are cut: the last words are withheld until more text follows them.
    """

    def __init__(self, evidence: EvidenceIndex) -> None:
        self._evidence = evidence
        self._pending = ""
        self._before = "\n"
        self._num_released = 0
        self._inserted: list[tuple[int, int]] = []
        self._checked: dict[str, bool] = {}

    def feed(self, text: str) -> str:
        self._pending += text
        words = list(_WORD.finditer(self._pending))
        if len(words) <= _OPEN_WORDS:
            return ""
        return self._release(self._uncut(words[-_OPEN_WORDS].start()))

    def flush(self) -> str:
        return self._release(len(self._pending))

    def skip(self, text: str) -> str:
        """Return text that is not checked, after what was withheld."""
        released = self.flush() + text
        self._num_released += len(text)
        self._before = (self._before + text)[-1:]
        return released

    def insert(self, text: str) -> str:
        """Return text that was not fed, after what was withheld."""
        released = self.flush() + text
        self._inserted.append((self._num_released, len(text)))
        return released

    def place(self, offset: int) -> int:
        """Return the offset in the marked text of an offset in the text as it was fed."""
        return offset + sum(length for start, length in self._inserted if start <= offset)

    @property
    def grounding(self) -> Grounding:
        unsupported = tuple(word for word, is_supported in self._checked.items() if not is_supported)
        return Grounding(len(self._checked), len(self._checked) - len(unsupported), unsupported)

    def _uncut(self, end: int) -> int:
        for found in identifiers_in(self._before + self._pending):
            start = found.start - 1
            if start < end < found.end - 1:
                return start
        return end

    def _release(self, end: int) -> str:
        if not end:
            return ""
        text, parts, last = self._pending[:end], [], 0
        # The character before decides whether a number begins a line.
        for found in identifiers_in(self._before + text):
            is_supported = self._checked.setdefault(found.text, self._evidence.has(found))
            if not is_supported:
                place = found.end - 1
                # A mark within the brackets of a Markdown link would become part of its address.
                place += found.kind == "url" and text[place : place + 1] == ")"
                parts += [text[last:place], MARK]
                last = place
                self._inserted.append((self._num_released + place, len(MARK)))
        self._num_released += end
        self._pending = self._pending[end:]
        self._before = text[-1]
        return "".join([*parts, text[last:]])


class AnswerChecker:
    """Check the events of one answer, in order; references still point at their markers."""

    def __init__(self, ask: AnswerRequest) -> None:
        self._evidence = EvidenceIndex()
        self._marker = AnswerMarker(self._evidence)
        self._num_told = 0
        for text in (ask.prompt or "", *(message.content for message in ask.messages if message.role != "assistant")):
            self._evidence.add(text)

    def of(self, event: Event) -> Iterator[Event]:
        match event:
            case EvidenceRead(texts=texts):
                for text in texts:
                    self._evidence.add(text)
                yield event
            case TranscriptDelta(origin="injected", text=text):
                self._evidence.add(text)
                yield event
            case TextDelta(channel="answer", is_ours=True):
                # What was not verified is told before the list of sources.
                yield from self._rest()
                yield replace(event, text=self._marker.skip(event.text))
            case TextDelta(channel="answer", text=text):
                if marked := self._marker.feed(text):
                    yield replace(event, text=marked)
            case Evidence(references=references):
                yield Evidence(tuple(self._moved(reference) for reference in references))
            case Done(outcome=outcome):
                yield from self._rest()
                grounding = self._marker.grounding
                is_partial = outcome == "answered" and grounding.unsupported
                yield replace(event, grounding=grounding, outcome="partial" if is_partial else outcome)
            case _:
                yield event

    def _rest(self) -> Iterator[Event]:
        """Yield what was withheld, and a note on identifiers that have not been told of."""
        if rest := self._marker.flush():
            yield TextDelta(rest)
        unsupported = self._marker.grounding.unsupported
        if len(unsupported) > self._num_told:
            note = notice(_told(unsupported[self._num_told :]), "answer")
            self._num_told = len(unsupported)
            yield replace(note, text=self._marker.insert(note.text))

    def _moved(self, reference: Reference) -> Reference:
        if not reference.end:
            return reference
        return replace(reference, start=self._marker.place(reference.start), end=self._marker.place(reference.end))


def _told(unsupported: tuple[str, ...]) -> str:
    more = len(unsupported) - _MAX_NAMED
    named = ", ".join(unsupported[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
    stand = "stands" if len(unsupported) == 1 else "stand"
    return f"Not verified: {named} {stand} neither in what was read nor in the question."


GroundedMode = Literal["marked", "strict"]
GROUNDED_MODES: Final[tuple[GroundedMode, ...]] = get_args(GroundedMode)
_OPTION: Final = "grounded"


class GroundedMethod:
    """Wrap a ``Method`` and check the identifiers of its answers.

    The option ``grounded`` is the wrapper's own. With ``strict``, an answer with an unsupported identifier is withheld.
    """

    def __init__(self, inner: Method) -> None:
        self._inner = inner
        self.name = inner.name
        self.description = inner.description

    def check(self, ask: AnswerRequest) -> None:
        mode = ask.options.get(_OPTION, "marked")
        if mode not in GROUNDED_MODES:
            known = " or ".join(GROUNDED_MODES)
            raise OptionInvalid(f"arrowhead.{_OPTION}: must be {known}", param=f"arrowhead.{_OPTION}")
        self._inner.check(_without_option(ask))

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        checker = AnswerChecker(ask)
        withheld: list[Event] | None = [] if ask.options.get(_OPTION) == "strict" else None
        async with aclosing(self._inner.answer(_without_option(ask))) as events:
            async for event in events:
                for checked in checker.of(event):
                    if withheld is None:
                        yield checked
                    elif isinstance(checked, Done):
                        for last in _strict_end(withheld, checked):
                            yield last
                    elif isinstance(checked, Evidence) or (
                        isinstance(checked, TextDelta) and checked.channel == "answer"
                    ):
                        withheld.append(checked)
                    else:
                        yield checked


def _without_option(ask: AnswerRequest) -> AnswerRequest:
    return replace(ask, options={name: value for name, value in ask.options.items() if name != _OPTION})


def _strict_end(withheld: Sequence[Event], done: Done) -> Iterator[Event]:
    """Yield the withheld answer, or the reason why it is not shown."""
    if done.grounding is None or not done.grounding.unsupported:
        yield from withheld
        yield done
        return
    reason = f"The answer is withheld, as the request wants it strictly grounded. {_told(done.grounding.unsupported)}"
    yield TextDelta(reason, is_ours=True)
    details = {**done.details, "abstained": True, "reason": reason, "withheld": done.answer}
    yield replace(done, answer=reason, outcome="abstained", details=details)


def grounding_record(grounding: Grounding) -> Mapping[str, object]:
    """Return the JSON form of the check, for replies and traces."""
    return {
        "checked": grounding.checked,
        "supported": grounding.supported,
        "unsupported": list(grounding.unsupported),
    }
