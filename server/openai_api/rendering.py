"""Render a method's events as OpenAI's objects.

Pure: no routes, no clock, no engine except its tokenizer's ``decode``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from models.decoding.types import LoopFinish, LoopUsage
from models.types import TokenLogprob
from server.egress_policy import NOTHING_LEFT
from server.methods.base import (
    CallMade,
    CallReplied,
    Done,
    Event,
    Evidence,
    Reference,
    Step,
    TextDelta,
    TranscriptDelta,
)

Decode = Callable[[Sequence[int]], str]
OpenAIFinish = Literal["stop", "length"]

# OpenAI's substitute for minus infinity, which JSON does not have.
_LEAST = -9999.0
# Details of a method that evaluations count, where the method reports them.
_COUNTED = ("abstained", "answer_in_list")
# OpenAI defines no other finish reasons; the exact one is in the ``arrowhead`` field and in the trace.
FINISH: dict[LoopFinish, OpenAIFinish] = {
    "stop": "stop",
    "length": "length",
    "call_limit": "length",
    "timeout": "length",
    "abort": "stop",
}


@dataclass(slots=True)
class Choice:
    """Accumulate the events of one answer.

    ``left`` describes what was sent to other machines. ``side_job`` names the job of a chat client that the plain model
    did instead of the method.
    """

    trace_id: str
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    transcript: list[TranscriptDelta] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    references: tuple[Reference, ...] = ()
    calls: list[dict[str, Any]] = field(default_factory=list)
    left: str = NOTHING_LEFT
    side_job: str | None = None
    done: Done | None = None

    @property
    def sampled(self) -> int:
        """Return the number of sampled tokens.

        For an aborted answer it is an estimate from its pieces, most of which have one token.
        """
        if self.done is not None:
            return self.done.usage.sampled_tokens
        return sum(delta.origin == "sampled" for delta in self.transcript)

    def feed(self, event: Event) -> None:
        match event:
            case TextDelta(text=text, channel="answer", logprobs=logprobs):
                self.content.append(text)
                self.logprobs.extend(logprobs or ())
            case TextDelta(text=text):
                self.reasoning.append(text)
            case Step(text=text):
                self.reasoning.append(f"{text}\n")
            case TranscriptDelta():
                self.transcript.append(event)
            case CallMade() | CallReplied():
                self._call(event)
            case Evidence(references=references):
                self.references = references
            case Done():
                self.done = event
            case _:
                pass

    def _call(self, event: CallMade | CallReplied) -> None:
        if isinstance(event, CallReplied):
            self.calls.append({"url": event.url, "status": event.status, "summary": event.summary})

    @property
    def finish_reason(self) -> OpenAIFinish:
        return FINISH[self.done.finish_reason] if self.done else "stop"

    @property
    def extra(self) -> dict[str, Any]:
        """Return the ``arrowhead`` member, with the data that OpenAI's objects have no field for."""
        done = self.done
        counted = {key: done.details[key] for key in _COUNTED if key in done.details} if done else {}
        return (
            counted
            | {
                "trace_id": self.trace_id,
                "answer": done.answer if done else "",
                "finish_reason": done.finish_reason if done else "abort",
                "calls": self.calls,
                "egress": self.left,
            }
            | ({"side_job": self.side_job} if self.side_job else {})
        )


def citations(references: Sequence[Reference]) -> list[dict[str, Any]]:
    return [
        {
            "type": "url_citation",
            "url_citation": {"url": r.url, "title": r.title, "start_index": r.start, "end_index": r.end},
        }
        for r in references
    ]


def usage_object(usages: Sequence[LoopUsage]) -> dict[str, Any]:
    """Return the usage of one request.

    Its choices share the prompt, which counts once; injected replies count as prompt.
    """
    prompt = max((u.prompt_tokens for u in usages), default=0) + sum(u.injected_tokens for u in usages)
    sampled = sum(u.sampled_tokens for u in usages)
    cached = max((u.cached_tokens for u in usages), default=0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": sampled,
        "total_tokens": prompt + sampled,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def chat_message(choice: Choice) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(choice.content), "refusal": None}
    if reasoning := "".join(choice.reasoning):
        message |= {"reasoning_content": reasoning, "reasoning": reasoning}
    message["annotations"] = citations(choice.references)
    message["arrowhead"] = choice.extra
    return message


def chat_delta(event: Event) -> dict[str, Any] | None:
    """Return the delta of one event, None for events that appear only in the trace and the last delta."""
    match event:
        case TextDelta(text=text, channel="answer"):
            return {"content": text}
        case TextDelta(text=text):
            return {"reasoning_content": text, "reasoning": text}
        case Step(text=text):
            return {"reasoning_content": f"{text}\n", "reasoning": f"{text}\n"}
        case Evidence(references=references):
            return {"annotations": citations(references)}
        case _:
            return None


def chat_logprobs(logprobs: Sequence[TokenLogprob], decode: Decode) -> dict[str, Any]:
    content = [
        _token_entry(item.token_id, item.logprob, decode)
        | {"top_logprobs": [_token_entry(token, value, decode) for token, value in item.top]}
        for item in logprobs
    ]
    return {"content": content, "refusal": None}


def _token_entry(token_id: int, logprob: float, decode: Decode) -> dict[str, Any]:
    text = decode([token_id])
    # A token with part of a character decodes to the replacement character; its bytes are not known here.
    raw = None if "\ufffd" in text else list(text.encode())
    return {"token": text, "logprob": max(logprob, _LEAST), "bytes": raw}


class CompletionLogprobs:
    """Render the logprobs of a transcript, fed its deltas in order; injected text has none.

    A token can precede its text, which may be withheld, so each token's offset follows from the token before.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._length = 0
        self._next_offset = 0

    def feed(self, delta: TranscriptDelta) -> dict[str, Any] | None:
        self._length += len(delta.text)
        if delta.origin == "injected":
            self._next_offset = self._length
        if not delta.logprobs:
            return None
        tokens = [self._decode([item.token_id]) for item in delta.logprobs]
        return {
            "tokens": tokens,
            "token_logprobs": [max(item.logprob, _LEAST) for item in delta.logprobs],
            "top_logprobs": [self._top(item) for item in delta.logprobs],
            "text_offset": [self._place(token) for token in tokens],
        }

    def _top(self, item: TokenLogprob) -> dict[str, float]:
        return {self._decode([token]): max(value, _LEAST) for token, value in item.top}

    def _place(self, token: str) -> int:
        offset, self._next_offset = self._next_offset, self._next_offset + len(token)
        return offset
