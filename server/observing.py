"""What the server tells whoever counts, times and traces it. Names and numbers only, never what was asked or said.

``Observer`` is the seam: ``metrics.Metrics`` counts, ``tracing.Tracing`` makes spans of the same reports and passes
them on, ``Unobserved`` drops them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from retrieval import observing
from retrieval.observing import RetrievalObserver


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request that has ended. ``route`` is the template (``/v1/models/{model}``), "" where none was reached.
    ``code``: of the error that was replied, "" for none."""

    route: str
    method: str
    status: int
    code: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounts:
    """Of one request, counted as its ``usage`` does: choices of one prompt share it. ``prompt`` is without
    ``injected``, so that ``usage.prompt_tokens`` is the sum of both and ``usage.completion_tokens`` is ``sampled``."""

    prompt: int = 0
    sampled: int = 0
    injected: int = 0
    cached: int = 0
    computed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """An answer that has ended. ``outcome``: ``ok``, ``cancelled`` or the code of the error. ``first_s``: seconds to
    the model's first text, None where there was none. ``calls``: how many by (endpoint, status). ``tokens`` are those
    of its finished choices."""

    id: str
    model: str
    outcome: str
    seconds: float
    first_s: float | None = None
    choices: int = 1
    calls: Mapping[tuple[str, str], int] = field(default_factory=dict)
    tokens: TokenCounts = TokenCounts()

    @property
    def num_calls(self) -> int:
        return sum(self.calls.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One continuation by the engine; an answer with calls has several. ``failure``: the error's class name,
    "cancelled" where its reader went away before the end, "" else. ``first_s``: seconds to its first token."""

    model: str
    max_tokens: int
    prompt_tokens: int
    sampled_tokens: int
    cached_tokens: int
    finish_reason: str
    seconds: float
    failure: str = ""
    first_s: float | None = None


class Observer(RetrievalObserver, Protocol):
    """Called where things happen, from any thread; must not raise and must not block."""

    def replied(self, request: HttpRequest) -> None:
        """A request has ended; of a stream, its last byte is sent or its reader is gone."""
        ...

    def answer_began(self, answer_id: str, model: str) -> None:
        """``model`` is one of the served ids. What runs for the answer is started after this, in its context."""
        ...

    def answer_ended(self, record: AnswerRecord) -> None:
        """Once for every ``answer_began``."""
        ...

    def generated(self, generation: Generation) -> None:
        """Told only by engines that are observed, which they are where spans are made."""
        ...


class Unobserved(observing.Unobserved):
    """Nobody counts."""

    def replied(self, request: HttpRequest) -> None: ...

    def answer_began(self, answer_id: str, model: str) -> None: ...

    def answer_ended(self, record: AnswerRecord) -> None: ...

    def generated(self, generation: Generation) -> None: ...
