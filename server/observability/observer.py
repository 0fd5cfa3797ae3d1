"""Define the reports of the server to metrics, tracing and the log, and the form of the log's lines.

Reports hold names and numbers only, never text of a request or an answer. ``Observer`` is the interface:
``metrics.Metrics`` counts, ``tracing.Tracing`` creates spans from the same reports and passes them on,
``NullServerObserver`` drops them.

No log holds question text, replies, URLs or keys, at any level: libraries that would log them are limited to warnings,
and exceptions and warnings are printed without their messages, which may quote any of them. What a message holds all
the same is escaped and cut, so that no text can forge a line.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Protocol, TextIO

from models.decoding.types import LoopUsage
from retrieval.observer import NullObserver, RetrievalObserver
from server.methods.base import CallReplied, Done, Event, TextDelta, TranscriptDelta
from server.printable import for_log
from server.settings.server import LogSettings

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

request_id: ContextVar[str] = ContextVar("request_id", default="-")

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
            self._unsupported += len(event.support.unsupported) if event.support else 0

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


# They log whole URLs with the query (httpx at INFO), or one line per request with path and query.
_VERBOSE_LOGGERS = ("httpx", "httpcore", "httpx2", "httpcore2", "uvicorn.access", "asyncio", "urllib3", "filelock")

_MAX_MESSAGE: Final = 2000
_MAX_FIELD: Final = 200
# Place and category of a Python warning, without its text.
_WARNING: Final = re.compile(r".*?:[0-9]+: \w+(?=:)")


class _RequestIdFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_id.get()
        if record.name == "asyncio":
            # The lines after the first show the task and its exception with their contents.
            record.msg, record.args = record.getMessage().partition("\n")[0], ()
        elif record.name == "py.warnings":
            found = _WARNING.match(record.getMessage())
            record.msg, record.args = found[0] if found else "a warning", ()
        return True


class _PlainFormatter(logging.Formatter):
    """Format a message as one line of visible characters, and an exception as its type and place without its text."""

    def format(self, record: logging.LogRecord) -> str:
        line = logging.makeLogRecord(record.__dict__)
        line.msg, line.args = for_log(record.getMessage(), _MAX_MESSAGE), ()
        line.exc_text = line.stack_info = None
        return super().format(line)

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802
        return "\n".join(_outline(ei[1]))


def _outline(error: BaseException | None) -> list[str]:
    lines: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
        lines += [type(error).__name__, *([frames] if frames else [])]
        error = error.__cause__ or error.__context__
    return lines


class _JsonFormatter(_PlainFormatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "request_id": getattr(record, "request_id", "-"),
            "message": for_log(record.getMessage(), _MAX_MESSAGE),
        }
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        line |= {
            name: for_log(value, _MAX_FIELD) if isinstance(value, str) else value for name, value in fields.items()
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_event(logger: logging.Logger, level: int, event: str, fields: Mapping[str, str | int | float]) -> None:
    """Log one line ``event: name=value …``, in JSON with each field as a member, too.

    ``fields`` must not hold text of users.
    """
    if logger.isEnabledFor(level):
        text = " ".join(f"{name}={value}" for name, value in fields.items())
        logger.log(level, "%s: %s", event, text, extra={"fields": {"event": event, **fields}})


class _Handler(logging.StreamHandler[TextIO]):
    """Say nothing of a record that cannot be formatted, which Python would print with its arguments."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        with suppress(OSError, ValueError):
            self.stream.write(f"a log record of {record.module} line {record.lineno} could not be written\n")


def setup_logging(settings: LogSettings) -> None:
    """Log to stderr; called once, by the command line."""
    handler = _Handler(sys.stderr)
    handler.addFilter(_RequestIdFilter())
    text = _PlainFormatter("%(asctime)s %(levelname)s %(name)s [%(request_id)s] %(message)s")
    handler.setFormatter(_JsonFormatter() if settings.format == "json" else text)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level)
    logging.captureWarnings(True)
    for name in _VERBOSE_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
