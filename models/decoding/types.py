"""Records of the interception loop: what a call is, what came back, and what the loop reports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from models.types import TokenLogprob

CallStatus = Literal["ok", "empty", "error", "refused", "duplicate"]
LoopFinish = Literal["stop", "length", "call_limit", "timeout", "abort"]


@dataclass(frozen=True, slots=True)
class CallSyntax:
    """How a call looks in text: ``opener`` starts it, ``closer`` ends it, and ``is_call`` judges what lies between.

    For GeneGPT: opener ``[https://``, closer ``]->``; ``is_call`` is given the text from ``https://`` up to but
    without the closer. A closer with no call before it is ordinary text.
    """

    opener: str
    closer: str
    is_call: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Call:
    """One call the model wrote. ``ordinal`` counts from 0 within an answer."""

    text: str
    ordinal: int


@dataclass(frozen=True, slots=True)
class CallReply:
    """What is put into the sequence after the arrow. ``text`` is data: it can trigger nothing.

    ``record`` is free for the caller: it goes untouched into events and traces.
    """

    text: str
    status: CallStatus
    record: Mapping[str, Any] = field(default_factory=dict)


CallHandler = Callable[[Call], Awaitable[CallReply]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLimits:
    """Bounds of one answer. Times in seconds; a reply over ``max_reply_tokens`` loses its end, and says so."""

    max_calls: int = 10
    max_reply_tokens: int = 1500
    call_timeout_s: float = 90.0
    total_timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the answer. ``injected`` spans are call replies, put in by the loop, not written by the model."""

    kind: Literal["sampled", "injected"]
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True, slots=True)
class LoopUsage:
    """Tokens of one answer, all segments together.

    ``prompt_tokens`` is the original prompt; ``sampled_tokens`` were written by the model and ``injected_tokens``
    are replies; ``cached_tokens`` of the *original prompt* came from the prefix cache at the first segment;
    ``computed_tokens`` is what the engine really computed (prefill without cache hits, plus one per sampled token).
    """

    prompt_tokens: int = 0
    sampled_tokens: int = 0
    injected_tokens: int = 0
    cached_tokens: int = 0
    computed_tokens: int = 0
    segments: int = 0


# Events of the driver, in the order things happen.


@dataclass(frozen=True, slots=True)
class TextSampled:
    """New text by the model. A call's own text is included, its arrow too."""

    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True, slots=True)
class CallStarted:
    call: Call


@dataclass(frozen=True, slots=True)
class CallFinished:
    """``injected`` is the text that went into the sequence (cut to the budget); ``seconds`` is the wait."""

    call: Call
    reply: CallReply
    injected: str
    num_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LoopDone:
    """``finish_reason`` ``stop`` covers EOS and stop strings (``stop_reason`` says which)."""

    finish_reason: LoopFinish
    stop_reason: str | int | None
    spans: tuple[Span, ...]
    usage: LoopUsage


LoopEvent = TextSampled | CallStarted | CallFinished | LoopDone
