"""What a method is given and what it yields. Knows nothing of HTTP, OpenAI's formats or how an answer is shown."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from models.decoding.types import CallStatus, LoopFinish, LoopUsage
from models.errors import ArrowheadError
from models.types import TokenLogprob

Channel = Literal["answer", "reasoning"]
Origin = Literal["sampled", "injected"]


class MethodError(ArrowheadError):
    """A method could not go through its steps."""


class OptionInvalid(MethodError):
    """``param`` is ``arrowhead.KEY``."""


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """What the client asked for. None leaves the choice to the method."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One answer to be given. ``prompt`` is set instead of ``messages`` where the client sent plain text. ``key_id``
    names the API key that asks, "" on a server without keys. ``namespaces``: those that it may read, None for all.
    """

    request_id: str
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    sampling: Sampling = Sampling()
    options: Mapping[str, Any] = field(default_factory=dict)
    key_id: str = ""
    namespaces: frozenset[str] | None = None

    @property
    def cache_salt(self) -> str | None:
        """One key's cached prefixes are not another's: the time to the first token would tell what was asked before."""
        return self.key_id or None

    @property
    def question(self) -> str:
        """The prompt, or the last message of the user. Earlier turns are not part of it."""
        if self.prompt is not None:
            return self.prompt.strip()
        return next((m.content.strip() for m in reversed(self.messages) if m.role == "user"), "")


# Events, in the order things happen.


@dataclass(frozen=True, slots=True)
class Step:
    """One line about what goes on, for a reader who waits."""

    text: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text for the reader. The ``answer`` pieces joined are the whole answer as it is shown."""

    text: str
    channel: Channel = "answer"
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True, slots=True)
class TranscriptDelta:
    """New text of the sequence itself, as the model sees it: what it wrote and what was put in."""

    text: str
    origin: Origin = "sampled"
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True, slots=True)
class CallMade:
    """``url`` as the model wrote it."""

    url: str
    ordinal: int


@dataclass(frozen=True, slots=True)
class CallReplied:
    """``summary`` is a short phrase (``3 ids``); ``record`` is JSON-able and goes into the trace."""

    url: str
    ordinal: int
    status: CallStatus
    summary: str
    seconds: float
    num_tokens: int
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A search in data that this machine has, done. ``queries`` as they were searched for, ``sources`` the addresses of
    what was found, best first."""

    queries: tuple[str, ...]
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """A record the answer was read from. ``start`` and ``end``: where its marker stands in the shown answer. ``text``:
    the passage that was read, "" where the record is not kept.
    """

    number: int
    title: str
    url: str
    start: int = 0
    end: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    references: tuple[Reference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """``answer`` is bare: no reference list, no marker. ``details`` is JSON-able (mask, prompt, limits)."""

    answer: str
    finish_reason: LoopFinish
    stop_reason: str | int | None
    usage: LoopUsage
    details: Mapping[str, Any] = field(default_factory=dict)


Event = Step | TextDelta | TranscriptDelta | CallMade | CallReplied | Retrieved | Evidence | Done


class Method(Protocol):
    """One way to answer, over one model. Safe to call many times at once."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """One sentence for ``/v1/models``."""
        ...

    def check(self, ask: Ask) -> None:
        """Raises OptionInvalid or another ArrowheadError for what can be refused before any work."""
        ...

    def answer(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """Yields events; the last is ``Done``. Closing the iterator stops generation and pending calls."""
        ...
