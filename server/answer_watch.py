"""Measure one answer as its events pass: time to first token, and calls by endpoint and status.

Stores no text.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from models.decoding.types import LoopUsage
from server.logging_setup import log_event, request_id
from server.methods.base import CallReplied, Event, TextDelta, TranscriptDelta
from server.observing import AnswerRecord, Observer, TokenCounts

log = logging.getLogger(__name__)


class AnswerWatch:
    """Collect the metrics of one answer.

    ``groups`` names for each choice the prompt that it answers; choices of one prompt share its tokens.
    """

    def __init__(self, observer: Observer, answer_id: str, model: str, groups: Sequence[str]) -> None:
        self._observer = observer
        self._id = answer_id
        self._model = model
        self._groups = groups
        self._calls: Counter[tuple[str, str]] = Counter()
        self._began = 0.0
        self._first: float | None = None

    def begin(self) -> None:
        self._began = time.monotonic()
        self._observer.answer_began(self._id, self._model)

    def feed(self, event: Event) -> None:
        if self._first is None and isinstance(event, TextDelta | TranscriptDelta) and event.text:
            self._first = time.monotonic()
        if isinstance(event, CallReplied):
            self._calls[str(event.record.get("endpoint") or ""), event.status] += 1

    def end(self, failure: str | None, usages: Sequence[LoopUsage | None]) -> AnswerRecord:
        """Report the finished answer to the observer and return its record.

        ``usages`` has one entry per choice, None for a choice that did not finish.
        """
        record = AnswerRecord(
            id=self._id,
            model=self._model,
            outcome=failure or "ok",
            seconds=time.monotonic() - self._began,
            first_s=None if self._first is None else self._first - self._began,
            choices=len(self._groups),
            calls=dict(self._calls),
            tokens=_counted(self._groups, usages),
        )
        self._observer.answer_ended(record)
        return record


def _counted(groups: Sequence[str], usages: Sequence[LoopUsage | None]) -> TokenCounts:
    by_prompt: dict[str, list[LoopUsage]] = {}
    for group, usage in zip(groups, usages, strict=True):
        if usage is not None:
            by_prompt.setdefault(group, []).append(usage)
    every = [usage for of_prompt in by_prompt.values() for usage in of_prompt]
    return TokenCounts(
        prompt=sum(max(usage.prompt_tokens for usage in of_prompt) for of_prompt in by_prompt.values()),
        cached=sum(max(usage.cached_tokens for usage in of_prompt) for of_prompt in by_prompt.values()),
        sampled=sum(usage.sampled_tokens for usage in every),
        injected=sum(usage.injected_tokens for usage in every),
        computed=sum(usage.computed_tokens for usage in every),
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
