"""Emergency numbers stand before an answer, a question to try behind an empty one, and the answer is the method's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import get_args

import pytest

from models.decoding.types import LoopUsage
from server.methods.base import (
    AUTO,
    METHOD_NAMES,
    AnswerOutcome,
    AnswerRequest,
    Done,
    Event,
    Evidence,
    Message,
    Reference,
    TextDelta,
    TranscriptDelta,
)
from server.methods.shared.conversation.notes import (
    EXAMPLES,
    EmergencyNumbers,
    NotedMethod,
    emergency_note,
    load_numbers,
)
from server.settings.server import Region

NUMBERS = EmergencyNumbers("112", "116 123", is_for_many_countries=True)


@dataclass
class Read:
    language: str = "en"
    is_emergency: bool = False
    is_greeting: bool = False
    asks_nothing: bool = False


class Reader:
    """Read every message as the same; None where no encoder is there."""

    def __init__(self, reading: Read | None) -> None:
        self._reading = reading

    async def read(self, message: str) -> Read | None:
        return self._reading


class Answers:
    """A method with one cited sentence."""

    name = "medrag"
    description = "answers"

    def __init__(self, outcome: AnswerOutcome = "answered") -> None:
        self._outcome = outcome
        self.questions: list[str] = []

    def check(self, ask: AnswerRequest) -> None:
        return

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        self.questions.append(ask.question)
        yield TextDelta("Give aspirin [1].")
        yield Evidence((Reference(1, "t", "https://a.example", 13, 16), Reference(2, "u", "https://b.example")))
        usage = LoopUsage(sampled_tokens=3)
        yield Done(answer="Give aspirin.", finish_reason="stop", stop_reason=None, usage=usage, outcome=self._outcome)


async def _events(
    reading: Read | None, numbers: EmergencyNumbers | None = NUMBERS, **more: AnswerOutcome
) -> list[Event]:
    inner = Answers(**more)
    method = NotedMethod(inner, Reader(reading), numbers)
    ask = AnswerRequest(request_id="r", messages=(Message("user", "I have crushing chest pain"),))
    events = [event async for event in method.answer(ask)]
    assert inner.questions == ["I have crushing chest pain"]
    return events


def _text(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def test_the_note_is_the_first_text_and_the_answer_follows_whole() -> None:
    """As the server's own words; outcome, answer and tokens are the method's, and markers keep their places."""
    events = await _events(Read(is_emergency=True))
    first, done = events[0], events[-1]
    assert isinstance(first, TextDelta)
    assert first.is_ours
    assert "call 112 or your local emergency number" in first.text
    assert "116 123" in first.text
    assert _text(events) == f"{first.text}Give aspirin [1]."
    assert isinstance(done, Done)
    assert (done.answer, done.outcome, done.usage.sampled_tokens) == ("Give aspirin.", "answered", 3)
    assert done.details["emergency_note"] is True
    (evidence,) = (event for event in events if isinstance(event, Evidence))
    cited, uncited = evidence.references
    assert _text(events)[cited.start : cited.end] == "[1]"
    assert (uncited.start, uncited.end) == (0, 0)


@pytest.mark.parametrize("only_reads", [True, False])
async def test_a_model_that_only_quotes_quotes_nothing_to_a_greeting(only_reads: bool) -> None:
    """It says so, with a question to try; a model that chats gets the message."""
    inner = Answers()
    reading = Read(is_greeting=True, asks_nothing=True)
    method = NotedMethod(inner, Reader(reading), NUMBERS, only_reads=only_reads)
    ask = AnswerRequest(request_id="r", messages=(Message("user", "hello"),))
    events = [event async for event in method.answer(ask)]
    done = events[-1]
    assert isinstance(done, Done)
    if only_reads:
        assert (inner.questions, done.outcome) == ([], "out_of_scope")
        assert _text(events).endswith(f"A question to try: {EXAMPLES['medrag']}")
        assert not any(isinstance(event, Evidence) for event in events)
    else:
        assert (inner.questions, done.outcome, _text(events)) == (["hello"], "answered", "Give aspirin [1].")


async def test_plain_text_has_the_note_in_its_transcript() -> None:
    """Which is what ``/v1/completions`` replies with."""
    method = NotedMethod(Answers(), Reader(Read(is_emergency=True)), NUMBERS)
    events = [event async for event in method.answer(AnswerRequest(request_id="r", prompt="I can't breathe"))]
    (written,) = (event for event in events if isinstance(event, TranscriptDelta))
    assert events[0] == TextDelta(written.text, is_ours=True)


@pytest.mark.parametrize(("reading", "numbers"), [(Read(is_emergency=True), None), (Read(), NUMBERS), (None, NUMBERS)])
async def test_without_emergency_numbers_or_encoder_the_answer_is_the_methods_alone(
    reading: Read | None, numbers: EmergencyNumbers | None
) -> None:
    """``server.emergency_note = off``; another message; nothing to read it with."""
    events = await _events(reading, numbers)
    assert _text(events) == "Give aspirin [1]."
    assert isinstance(events[-1], Done)
    assert events[-1].details == {}


async def test_an_empty_answer_to_a_greeting_has_a_question_to_try() -> None:
    """An answer, or an empty one to a question, has none."""
    tried = f"A question to try: {EXAMPLES['medrag']}"
    assert _text(await _events(Read(is_greeting=True), outcome="abstained")).endswith(tried)
    assert tried not in _text(await _events(Read(is_greeting=True), outcome="answered"))
    assert tried not in _text(await _events(Read(), outcome="abstained"))


def test_each_region_of_the_settings_has_numbers_and_each_method_a_question() -> None:
    """And no other."""
    numbers = load_numbers()
    assert set(numbers) == set(get_args(Region))
    assert all(one.emergency and one.crisis for one in numbers.values())
    assert set(EXAMPLES) == {AUTO, *METHOD_NAMES}


@pytest.mark.parametrize(
    ("language", "part"),
    [
        ("en", "call 911. Thoughts of suicide: 988. Poisoning: 1-800-222-1222."),
        ("de", "911 anrufen."),
        ("fr", "appelez le 911"),
        ("es", "llame al 911"),
        ("it", "call 911"),
    ],
)
def test_the_note_is_in_the_language_of_the_message(language: str, part: str) -> None:
    """In English where there are no words of it; one line, so that it is one paragraph."""
    note = emergency_note(load_numbers()["us"], language)
    assert part in note
    assert "local" not in note
    assert "\n" not in note
