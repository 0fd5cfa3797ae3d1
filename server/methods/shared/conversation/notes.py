"""Put a line with emergency numbers before an answer, and a line on what to ask behind one to a greeting.

Both stand beside the answer, never in place of it: the method gets every message, but for greetings of a model that can
only look up and quote, for which the second line is all there is to say.
"""

from __future__ import annotations

import tomllib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, Final, NamedTuple, Protocol

from models.decoding.types import LoopUsage
from server.methods.base import AnswerRequest, Done, Event, Evidence, Method, TextDelta, TranscriptDelta

_EMPTY_OUTCOMES: Final = frozenset({"out_of_scope", "abstained", "not_found"})
_FALLBACK: Final = "en"
_ASKS_NOTHING: Final = "This asks nothing that the sources here could answer."


class MessageReading(Protocol):
    """Say what a message is likely to be; ``language``: ISO 639-1."""

    @property
    def language(self) -> str: ...

    @property
    def is_emergency(self) -> bool: ...

    @property
    def is_greeting(self) -> bool: ...

    @property
    def asks_nothing(self) -> bool: ...


class MessageReader(Protocol):
    """Read what kind of message a person writes."""

    async def read(self, message: str) -> MessageReading | None:
        """Return what the message is, None where that cannot be told; never raise for it."""
        ...


@dataclass(frozen=True, slots=True)
class EmergencyNumbers:
    """Hold the telephone numbers of a region; ``crisis`` is for thoughts of suicide, "" where a number is not known."""

    emergency: str
    crisis: str
    poison: str = ""
    # Numbers of the European Union are not everywhere those of the one who reads.
    is_for_many_countries: bool = False


class _Wording(NamedTuple):
    call: str
    or_local: str
    crisis: str
    poison: str
    ends: str


_WORDING: Final = {
    "en": _Wording(
        "If this is an emergency now, call {}{}", " or your local emergency number",
        "Thoughts of suicide: {}", "Poisoning: {}", "The answer below is no medical advice.",
    ),
    "de": _Wording(
        "Wenn das jetzt ein Notfall ist: {}{} anrufen", " oder die örtliche Notrufnummer",
        "Bei Gedanken an Suizid: {}", "Bei Vergiftungen: {}", "Die folgende Antwort ersetzt keinen ärztlichen Rat.",
    ),
    "fr": _Wording(
        "Si c’est une urgence en ce moment, appelez le {}{}", " ou le numéro d’urgence local",
        "En cas d’idées suicidaires : {}", "En cas d’intoxication : {}",
        "La réponse qui suit n’est pas un avis médical.",
    ),
    "es": _Wording(
        "Si es una emergencia ahora mismo, llame al {}{}", " o al número de emergencias local",
        "Si piensa en el suicidio: {}", "Intoxicaciones: {}", "La respuesta que sigue no es consejo médico.",
    ),
}  # fmt: skip


def load_numbers() -> Mapping[str, EmergencyNumbers]:
    """Return the numbers by region."""
    text = (files(__package__) / "emergency_numbers.toml").read_text("utf-8")
    return {
        region: EmergencyNumbers(row["emergency"], row["crisis"], row.get("poison", ""), region == "eu")
        for region, row in tomllib.loads(text).items()
    }


def emergency_note(numbers: EmergencyNumbers, language: str) -> str:
    """Return the line in the language of the message, in English where there are no words of it."""
    words = _WORDING.get(language, _WORDING[_FALLBACK])
    local = words.or_local if numbers.is_for_many_countries else ""
    parts = [words.call.format(numbers.emergency, local)]
    parts += [words.crisis.format(numbers.crisis)] if numbers.crisis else []
    parts += [words.poison.format(numbers.poison)] if numbers.poison else []
    return f"**{'. '.join(parts)}.** {words.ends}"


# One question for each method that its shipped data answer.
EXAMPLES: Final = {
    "auto": "Which drug reverses heparin?",
    "genegpt": "What is the official gene symbol of LMP10?",
    "kg-rag": "Which genes are associated with Parkinson's disease?",
    "medrag": "Which drug reverses heparin?",
    "i-medrag": "Which drug reverses heparin?",
    "weiseeule": "Which drug reverses heparin?",
    "clinfo": "Does dexamethasone lower mortality in severe COVID-19?",
}


class NotedMethod:
    """Wrap a ``Method`` with the lines that stand before and behind its answer.

    ``numbers`` None leaves out the line on emergencies. ``only_reads``: the model cannot chat.
    """

    def __init__(
        self, inner: Method, reader: MessageReader, numbers: EmergencyNumbers | None, *, only_reads: bool = False
    ) -> None:
        self._inner = inner
        self._reader = reader
        self._numbers = numbers
        self._only_reads = only_reads
        self.name = inner.name
        self.description = inner.description

    def check(self, ask: AnswerRequest) -> None:
        self._inner.check(ask)

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        reading = await self._reader.read(ask.question)
        note = ""
        if reading is not None and reading.is_emergency and self._numbers is not None:
            note = f"{emergency_note(self._numbers, reading.language)}\n\n"
            yield TextDelta(note, is_ours=True)
            if ask.prompt is not None:
                # The reply to plain text is the transcript.
                yield TranscriptDelta(note, "injected")
        if self._only_reads and reading is not None and reading.asks_nothing:
            for ending in self._greeted(note):
                yield ending
            return
        is_greeting = reading is not None and reading.is_greeting
        async with aclosing(self._inner.answer(ask)) as events:
            async for event in events:
                match event:
                    case Evidence(references=references) if note:
                        yield Evidence(tuple(one.moved(len(note)) for one in references))
                    case Done(outcome=outcome, details=details):
                        if is_greeting and outcome in _EMPTY_OUTCOMES:
                            yield TextDelta(f"\n\n{self._example}", is_ours=True)
                        noted: dict[str, Any] = {"emergency_note": True} if note else {}
                        yield replace(event, details={**details, **noted})
                    case _:
                        yield event

    @property
    def _example(self) -> str:
        return f"A question to try: {EXAMPLES[self.name]}"

    def _greeted(self, note: str) -> tuple[Event, ...]:
        """Return the whole answer to a greeting, behind ``note``."""
        details = {"abstained": True, "reason": _ASKS_NOTHING} | ({"emergency_note": True} if note else {})
        text = f"{_ASKS_NOTHING} {self._example}"
        done = Done(
            answer=_ASKS_NOTHING,
            finish_reason="stop",
            stop_reason=None,
            usage=LoopUsage(),
            details=details,
            outcome="out_of_scope",
        )
        return TranscriptDelta(text, "injected"), TextDelta(text, is_ours=True), done
