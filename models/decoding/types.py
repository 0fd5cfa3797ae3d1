"""Define the records of the interception loop: calls, replies, limits and events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from models.types import TokenLogprob

CallStatus = Literal["ok", "empty", "error", "refused", "duplicate"]
LoopFinish = Literal["stop", "length", "call_limit", "timeout", "abort"]


@dataclass(frozen=True, slots=True)
class CallSyntax:
    """Define how a call looks in text: ``opener`` starts it, ``closer`` ends it, ``is_call`` judges the text between.

    For GeneGPT: opener ``[https://``, closer ``]->``; ``is_call`` is given the text from ``https://`` up to but
    without the closer. A closer with no call before it is ordinary text.
    """

    opener: str
    closer: str
    is_call: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Call:
    """Hold one call that the model wrote; ``ordinal`` counts from 0 within an answer."""

    text: str
    ordinal: int


@dataclass(frozen=True, slots=True)
class CallReply:
    """Hold the reply that is inserted into the sequence after the arrow.

    ``text`` is data: it cannot trigger a call. ``record`` is free for the caller: it passes unchanged into events and
    traces.
    """

    text: str
    status: CallStatus
    record: Mapping[str, Any] = field(default_factory=dict)


CallHandler = Callable[[Call], Awaitable[CallReply]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLimits:
    """Set the limits of one answer, times in seconds.

    A reply over ``max_reply_tokens`` is cut at its end and marked as cut. ``max_own_tokens`` bounds what the model
    writes between two replies, None for no bound but that of the whole answer.
    """

    max_calls: int = 10
    max_own_tokens: int | None = None
    max_reply_tokens: int = 1500
    call_timeout_s: float = 90.0
    total_timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Span:
    """Hold a contiguous part of the answer.

    ``injected`` spans are call replies, inserted by the loop, not written by the model.
    """

    kind: Literal["sampled", "injected"]
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True, slots=True)
class LoopUsage:
    """Count the tokens of one answer, all segments together.

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

    def plus(self, other: LoopUsage) -> LoopUsage:
        """Return the sum, for an answer that was begun twice over one prompt, which counts once."""
        return LoopUsage(
            prompt_tokens=self.prompt_tokens,
            sampled_tokens=self.sampled_tokens + other.sampled_tokens,
            injected_tokens=self.injected_tokens + other.injected_tokens,
            cached_tokens=other.cached_tokens,
            computed_tokens=self.computed_tokens + other.computed_tokens,
            segments=self.segments + other.segments,
        )


# Events of the driver, in the order in which they occur.


@dataclass(frozen=True, slots=True)
class TextSampled:
    """Report new text of the model, including a call's own text and its arrow.

    ``reasoning`` is what the model thinks before that text and no part of it. ``logprobs`` are those of the text.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] | None = None
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class CallStarted:
    """Report that a call begins."""

    call: Call


@dataclass(frozen=True, slots=True)
class CallFinished:
    """Report the reply to a call.

    ``injected`` is the text that was inserted into the sequence (cut to the budget); ``seconds`` is the wait.
    """

    call: Call
    reply: CallReply
    injected: str
    num_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LoopDone:
    """Report the end of the answer.

    ``finish_reason`` ``stop`` covers EOS and stop strings (``stop_reason`` says which). ``stop_reason`` ``REPETITION``
    says that the model repeated its text (``length``) or a call (``call_limit``).
    """

    finish_reason: LoopFinish
    stop_reason: str | int | None
    spans: tuple[Span, ...]
    usage: LoopUsage


LoopEvent = TextSampled | CallStarted | CallFinished | LoopDone

ToolChoice = Literal["auto", "none", "required", "named"]


@dataclass(frozen=True, slots=True)
class Tool:
    """Hold one tool: its OpenAI object, and the JSON schema of its arguments."""

    name: str
    definition: Mapping[str, Any]
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """State which tools the model may or must call.

    ``choice`` ``named`` means that ``tools`` has the one tool which must be called; ``shown`` are the tools that the
    prompt lists. ``answer`` is the schema of an answer without calls, None for free text.
    """

    tools: tuple[Tool, ...]
    shown: tuple[Tool, ...]
    choice: ToolChoice = "auto"
    parallel: bool = True
    answer: Mapping[str, Any] | None = field(default=None)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.tools)
