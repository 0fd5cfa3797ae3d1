"""Define the reports of the server to metrics and tracing.

Reports hold names and numbers only, never text of a request or an answer. ``Observer`` is the interface:
``metrics.Metrics`` counts, ``tracing.Tracing`` creates spans from the same reports and passes them on, ``Unobserved``
drops them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from retrieval import observing
from retrieval.observing import RetrievalObserver


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """Describe one request that has ended.

    ``route``: the template (``/v1/models/{model}``), "" if none matched. ``code``: of the error reply, "" for none.
    """

    route: str
    method: str
    status: int
    code: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounts:
    """Count the tokens of one request as its ``usage`` does; choices of one prompt count it once.

    ``prompt`` excludes ``injected``, so that ``usage.prompt_tokens`` is the sum of both and ``usage.completion_tokens``
    is ``sampled``.
    """

    prompt: int = 0
    sampled: int = 0
    injected: int = 0
    cached: int = 0
    computed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """Describe an answer that has ended.

    ``outcome``: ``ok``, ``cancelled`` or the code of the error. ``first_s``: seconds to the model's first text, None if
    there was none. ``calls``: number of calls by (endpoint, status). ``tokens``: those of its finished choices.
    """

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
    """Describe one continuation by the engine; an answer with calls has several.

    ``failure``: the error's class name, "cancelled" if the consumer stopped before the end, else "". ``first_s``:
    seconds to its first token.
    """

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
    """Receive reports of events as they happen, from any thread; methods must not raise or block."""

    def replied(self, request: HttpRequest) -> None:
        """Record a request that has ended; a stream ends when its last byte is sent or the client disconnects."""
        ...

    def answer_began(self, answer_id: str, model: str) -> None:
        """Record the start of an answer.

        ``model`` is one of the served ids. The work for the answer starts after this call, in its context.
        """
        ...

    def answer_ended(self, record: AnswerRecord) -> None:
        """Record the end of an answer, once for every ``answer_began``."""
        ...

    def generated(self, generation: Generation) -> None:
        """Record a continuation; only observed engines report it, and they exist only where spans are created."""
        ...


class Unobserved(observing.Unobserved):
    """Drop all reports."""

    def replied(self, request: HttpRequest) -> None: ...

    def answer_began(self, answer_id: str, model: str) -> None: ...

    def answer_ended(self, record: AnswerRecord) -> None: ...

    def generated(self, generation: Generation) -> None: ...
