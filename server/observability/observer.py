"""Define the reports of the server to metrics and tracing.

Reports hold names and numbers only, never text of a request or an answer. ``Observer`` is the interface:
``metrics.Metrics`` counts, ``tracing.Tracing`` creates spans from the same reports and passes them on, ``NullObserver``
drops them.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from models.decoding.types import LoopUsage
from retrieval.observer import NullObserver, RetrievalObserver
from server.methods.base import CallReplied, Done, Event, TextDelta, TranscriptDelta
from server.observability.logging_setup import log_event, request_id

HTTP_METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"))


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """Describe one request that has ended.

    ``method``: one of ``HTTP_METHODS``, or "other".
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
    ``outcomes``: number of finished choices by their method's outcome. ``unsupported``: number of identifiers in them
    that stand in nothing that was read.
    """

    id: str
    model: str
    outcome: str
    seconds: float
    first_s: float | None = None
    choices: int = 1
    calls: Mapping[tuple[str, str], int] = field(default_factory=dict)
    tokens: TokenCounts = TokenCounts()
    outcomes: Mapping[str, int] = field(default_factory=dict)
    unsupported: int = 0

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


class NullServerObserver(NullObserver):
    """Drop all reports."""

    def replied(self, request: HttpRequest) -> None: ...

    def answer_began(self, answer_id: str, model: str) -> None: ...

    def answer_ended(self, record: AnswerRecord) -> None: ...

    def generated(self, generation: Generation) -> None: ...


log = logging.getLogger(__name__)


class AnswerMetrics:
    """Collect the metrics of one request's answers, ``choices`` of them, and report their beginning and end."""

    def __init__(self, observer: Observer, answer_id: str, model: str, choices: int) -> None:
        self.id = answer_id
        self._observer = observer
        self._model = model
        self._choices = choices
        self._calls: Counter[tuple[str, str]] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._unsupported = 0
        self._began = 0.0
        self._first: float | None = None

    def begin(self) -> None:
        self._began = time.monotonic()
        self._observer.answer_began(self.id, self._model)

    def feed(self, event: Event) -> None:
        """Count a method's event: its first text, its calls, its outcome."""
        if self._first is None and isinstance(event, TextDelta | TranscriptDelta) and event.text:
            self.text_began(time.monotonic())
        if isinstance(event, CallReplied):
            self._calls[str(event.record.get("endpoint") or ""), event.status] += 1
        if isinstance(event, Done):
            self._outcomes.update([event.outcome] if event.outcome else [])
            self._unsupported += len(event.grounding.unsupported) if event.grounding else 0

    def text_began(self, at: float) -> None:
        """Record the monotonic time of the first text; later calls change nothing."""
        if self._first is None:
            self._first = at

    def end(self, outcome: str, tokens: TokenCounts) -> AnswerRecord:
        """Report the finished answers to the observer and return their record."""
        record = AnswerRecord(
            id=self.id,
            model=self._model,
            outcome=outcome,
            seconds=time.monotonic() - self._began,
            first_s=None if self._first is None else max(0.0, self._first - self._began),
            choices=self._choices,
            calls=dict(self._calls),
            tokens=tokens,
            outcomes=dict(self._outcomes),
            unsupported=self._unsupported,
        )
        self._observer.answer_ended(record)
        return record


def token_counts(groups: Sequence[str], usages: Sequence[LoopUsage | None]) -> TokenCounts:
    """Return the tokens of all choices.

    ``groups`` names for each choice the prompt that it answers; choices of one prompt share its tokens. ``usages`` has
    one entry per choice, None for a choice that did not finish.
    """
    by_prompt: dict[str, list[LoopUsage]] = {}
    for group, usage in zip(groups, usages, strict=True):
        if usage is not None:
            by_prompt.setdefault(group, []).append(usage)
    all_usages = [usage for of_prompt in by_prompt.values() for usage in of_prompt]
    return TokenCounts(
        prompt=sum(max(usage.prompt_tokens for usage in of_prompt) for of_prompt in by_prompt.values()),
        cached=sum(max(usage.cached_tokens for usage in of_prompt) for of_prompt in by_prompt.values()),
        sampled=sum(usage.sampled_tokens for usage in all_usages),
        injected=sum(usage.injected_tokens for usage in all_usages),
        computed=sum(usage.computed_tokens for usage in all_usages),
    )


def log_answer(record: AnswerRecord, request: str, more: Mapping[str, str] | None = None) -> None:
    """Log one line for a finished answer.

    ``request`` is the id of the HTTP request that asked for the answer.
    """
    tokens = record.tokens
    fields: dict[str, str | int | float] = {
        "id": record.id,
        "request": request,
        "model": record.model,
        "n": record.choices,
        "seconds": round(record.seconds, 3),
        "first": "-" if record.first_s is None else round(record.first_s, 3),
        "calls": record.num_calls,
        "prompt": tokens.prompt,
        "sampled": tokens.sampled,
        "injected": tokens.injected,
        "cached": tokens.cached,
        "computed": tokens.computed,
        "outcome": record.outcome,
    }
    before = request_id.set(record.id)  # a stream ends in the context of its HTTP request
    try:
        log_event(log, logging.INFO, "answer", fields | dict(more or {}))
    finally:
        request_id.reset(before)
