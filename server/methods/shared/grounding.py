"""Check each identifier of an answer against what was read, and mark in the text those that stand nowhere.

The check is lexical: it finds names and numbers that the model made up, not wrong statements about the right ones.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from server.methods.base import (
    AnswerOutcome,
    AnswerRequest,
    Done,
    Event,
    Evidence,
    EvidenceRead,
    Grounding,
    Method,
    OptionInvalid,
    Reference,
    Step,
    TextDelta,
    TranscriptDelta,
    add_usage,
)
from server.methods.shared.generation import FirstAnswer, Rewriter
from server.methods.shared.identifiers import EvidenceIndex, identifiers_in
from server.methods.shared.outcomes import notice

MARK: Final = " [unverified]"
# No identifier has more words than this: a number, its unit and what stands before both.
_OPEN_WORDS: Final = 4
_WORD: Final = re.compile(r"\S+")
_MAX_NAMED: Final = 5
_MARKER: Final = re.compile(r" ?\[\d{1,3}\]")
_SECOND: Final = (
    "Written a second time, as the first answer had identifiers that stand neither in what was read nor in the "
    "question: compare it with the sources."
)


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
        self._num_reported = 0
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

    def grounding_of(self, text: str) -> Grounding:
        """Check another text against the same evidence."""
        checked = {found.text: self._evidence.has(found) for found in identifiers_in(text)}
        unsupported = tuple(word for word, is_supported in checked.items() if not is_supported)
        return Grounding(len(checked), len(checked) - len(unsupported), unsupported)

    def _rest(self) -> Iterator[Event]:
        """Yield what was withheld, and a note on identifiers that have not been told of."""
        if rest := self._marker.flush():
            yield TextDelta(rest)
        unsupported = self._marker.grounding.unsupported
        if len(unsupported) > self._num_reported:
            note = notice(_note_on(unsupported[self._num_reported :]), "answer")
            self._num_reported = len(unsupported)
            yield replace(note, text=self._marker.insert(note.text))

    def _moved(self, reference: Reference) -> Reference:
        if not reference.end:
            return reference
        return replace(reference, start=self._marker.place(reference.start), end=self._marker.place(reference.end))


def _note_on(unsupported: tuple[str, ...]) -> str:
    stand = "stands" if len(unsupported) == 1 else "stand"
    return f"Not verified: {_named(unsupported)} {stand} neither in what was read nor in the question."


def _named(unsupported: tuple[str, ...]) -> str:
    more = len(unsupported) - _MAX_NAMED
    return ", ".join(unsupported[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


GroundedMode = Literal["marked", "strict"]
GROUNDED_MODES: Final[tuple[GroundedMode, ...]] = get_args(GroundedMode)
_OPTION: Final = "grounded"


class GroundedMethod:
    """Wrap a ``Method`` and check the identifiers of its answers.

    The option ``grounded`` is the wrapper's own. With ``strict``, an answer with an unsupported identifier is written
    once more by ``rewriter``, and withheld where that does not help.
    """

    def __init__(self, inner: Method, rewriter: Rewriter | None = None) -> None:
        self._inner = inner
        self._rewriter = rewriter
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
        strict = _Strict() if ask.options.get(_OPTION) == "strict" else None
        async with aclosing(self._inner.answer(_without_option(ask))) as events:
            async for event in events:
                if strict is not None:
                    strict.note(event)
                for checked in checker.of(event):
                    if strict is None or not strict.holds(checked):
                        yield checked
        if strict is None or strict.done is None:
            return
        done = strict.done
        if done.grounding is None or not done.grounding.unsupported:
            for held in (*strict.checked, done):
                yield held
            return
        async with aclosing(self._again(ask, checker, strict, done)) as ending:
            async for event in ending:
                yield event

    async def _again(
        self, ask: AnswerRequest, checker: AnswerChecker, strict: _Strict, done: Done
    ) -> AsyncGenerator[Event, None]:
        """Yield the answer as it is written again, or the reason why none is shown."""
        unsupported = done.grounding.unsupported if done.grounding else ()
        usage = done.usage
        if self._rewriter is not None and strict.outcome in ("answered", "partial"):
            yield Step(f"written again without {_named(unsupported)}")
            second = await self._rewriter.rewritten(ask, FirstAnswer(strict.written, unsupported, strict.evidence))
            usage = add_usage(done.usage, second.usage)
            grounding = checker.grounding_of(second.text)
            if second.text and not grounding.unsupported:
                details = {**done.details, "first_answer": done.answer, "first_unsupported": list(unsupported)}
                for event in strict.replaced_by(second.text):
                    yield event
                # A model that made names up once is no proof that the right ones mean the right thing.
                answer = _MARKER.sub("", second.text)
                yield replace(done, answer=answer, usage=usage, outcome="partial", grounding=grounding, details=details)
                return
        reason = f"The answer is withheld, as the request wants it strictly grounded. {_note_on(unsupported)}"
        yield TextDelta(reason, is_ours=True)
        details = {**done.details, "abstained": True, "reason": reason, "withheld": done.answer}
        yield replace(done, answer=reason, outcome="abstained", usage=usage, details=details)


@dataclass(slots=True)
class _Strict:
    """Hold what a strictly grounded answer shows at its end alone, as it was checked and as it was."""

    checked: list[Event] = field(default_factory=list)
    plain: list[TextDelta] = field(default_factory=list)
    references: tuple[Reference, ...] = ()
    evidence: list[str] = field(default_factory=list)
    outcome: AnswerOutcome | None = None
    done: Done | None = None

    def note(self, event: Event) -> None:
        """Keep an event as the method yields it."""
        match event:
            case EvidenceRead(texts=texts):
                self.evidence += texts
            case TranscriptDelta(origin="injected", text=text):
                self.evidence.append(text)
            case TextDelta(channel="answer"):
                self.plain.append(event)
            case Evidence(references=references):
                self.references += references
            case Done(outcome=outcome):
                self.outcome = outcome

    def holds(self, event: Event) -> bool:
        """Keep a checked event if it belongs to the answer; return whether it does."""
        match event:
            case TextDelta(channel="answer") | Evidence():
                self.checked.append(event)
                return True
            case Done():
                self.done = event
                return True
        return False

    @property
    def _end(self) -> int:
        """Return how many of the texts end with the model's last one."""
        return max((place for place, delta in enumerate(self.plain, 1) if not delta.is_ours), default=0)

    @property
    def written(self) -> str:
        return "".join(delta.text for delta in self.plain[: self._end] if not delta.is_ours)

    def replaced_by(self, text: str) -> Iterator[Event]:
        """Yield another text in place of the model's, with what followed it, such as the list of sources."""
        note = notice(_SECOND, text)
        yield TextDelta(text)
        yield note
        yield from self.plain[self._end :]
        before = sum(len(delta.text) for delta in self.plain[: self._end])
        shift = len(text) + len(note.text) - before
        if self.references:
            yield Evidence(tuple(_shifted(one, before, shift, text) for one in self.references))


def _shifted(reference: Reference, before: int, shift: int, text: str) -> Reference:
    """Return a reference whose marker stood below the text, or in it, at its new place; (0, 0) where it has none."""
    if reference.end and reference.start >= before:
        return replace(reference, start=reference.start + shift, end=reference.end + shift)
    marker = f"[{reference.number}]"
    start = text.find(marker)
    return replace(reference, start=max(0, start), end=start + len(marker) if start >= 0 else 0)


def _without_option(ask: AnswerRequest) -> AnswerRequest:
    return replace(ask, options={name: value for name, value in ask.options.items() if name != _OPTION})


def grounding_record(grounding: Grounding) -> Mapping[str, object]:
    """Return the JSON form of the check, for replies and traces."""
    return {
        "checked": grounding.checked,
        "supported": grounding.supported,
        "unsupported": list(grounding.unsupported),
    }
