"""Render a method's events as OpenAI's objects, with the addresses of this server's own passages made whole.

Pure: no routes, no clock, no engine except its tokenizer's ``decode``. Methods know paths alone (``/v1/passages/…``).
Before them comes the address under which the client reached this server, where that can be known, so that they open
from where the client is; otherwise the path stays as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from starlette.requests import HTTPConnection

from models.decoding.types import LoopFinish, LoopUsage
from models.types import TokenLogprob
from server.api.answers.file_search import FileCitations
from server.auth.authentication import Principal
from server.egress.policy import NOTHING_LEFT
from server.methods.base import (
    CallMade,
    CallReplied,
    Done,
    Event,
    Evidence,
    OptionInvalid,
    Reference,
    Retrieved,
    Step,
    TextDelta,
    ToolCalled,
    TranscriptDelta,
)
from server.methods.shared.call_lines import call_query
from server.middleware import host_name, is_local_name
from server.wiring.services import ServedModel, Services

Decode = Callable[[Sequence[int]], str]
OpenAIFinish = Literal["stop", "length", "tool_calls"]
# OpenAI's substitute for minus infinity, which JSON does not have.
_LEAST = -9999.0
# Details of a method that evaluations count, where the method reports them.
_COUNTED = ("abstained", "answer_in_list", "answered_by", "alternatives")
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
    did instead of the method. ``files`` cites the files that it searched, None where it searches none.
    """

    trace_id: str
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    transcript: list[TranscriptDelta] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    tool_calls: list[ToolCalled] = field(default_factory=list)
    references: tuple[Reference, ...] = ()
    calls: list[dict[str, Any]] = field(default_factory=list)
    left: str = NOTHING_LEFT
    side_job: str | None = None
    done: Done | None = None
    files: FileCitations | None = None

    @property
    def sampled(self) -> int:
        """Return the number of sampled tokens.

        For an aborted answer it is an estimate from its pieces, most of which have one token.
        """
        if self.done is not None:
            return self.done.usage.sampled_tokens
        return sum(delta.origin == "sampled" for delta in self.transcript)

    def feed(self, event: Event) -> None:
        if self.files is not None:
            self.files.feed(event)
        match event:
            case TextDelta(text=text, channel="answer", logprobs=logprobs):
                self.content.append(text)
                self.logprobs.extend(logprobs or ())
            case TextDelta(text=text):
                self.reasoning.append(text)
            case Step(text=text):
                self.reasoning.append(f"{text}\n")
            case ToolCalled():
                self.tool_calls.append(event)
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
    def annotations(self) -> list[dict[str, Any]]:
        """Return what the message cites: records by their addresses, or files."""
        if self.files is None:
            return citations(self.references)
        return [
            {"type": kind, kind: {name: value for name, value in one.items() if name != "type"}}
            for one in self.files.annotations()
            for kind in (one["type"],)
        ]

    @property
    def finish_reason(self) -> OpenAIFinish:
        finish = FINISH[self.done.finish_reason] if self.done else "stop"
        return "tool_calls" if self.tool_calls and finish == "stop" else finish

    @property
    def extra(self) -> dict[str, Any]:
        """Return the ``arrowhead`` member, with the data that OpenAI's objects have no field for."""
        done = self.done
        counted = {key: done.details[key] for key in _COUNTED if key in done.details} if done else {}
        if done and done.outcome:
            counted["outcome"] = done.outcome
        if done and done.support:
            counted["support"] = done.support.record
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
    if choice.tool_calls:
        message["content"] = message["content"] or None
        message["tool_calls"] = [_tool_call(call, call.arguments) for call in choice.tool_calls]
    message["annotations"] = choice.annotations
    message["arrowhead"] = choice.extra
    return message


def _tool_call(call: ToolCalled, arguments: str) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def tool_call_deltas(call: ToolCalled) -> list[dict[str, Any]]:
    """Return the deltas of one call: its head with empty arguments, then the arguments, which clients join."""
    head = {"index": call.ordinal} | _tool_call(call, "")
    rest = {"index": call.ordinal, "function": {"arguments": call.arguments}}
    return [{"tool_calls": [head]}, {"tool_calls": [rest]}]


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


_HEADERS: Final = "x-openwebui-"
_TASK: Final = "x-openwebui-task"
# Versions without this placeholder send it literally: {{TASK}}.
_TASK_NAME: Final = re.compile(r"[a-z][a-z_]{0,63}")
_PROMPT_HEAD: Final = "### Task:"
_PROMPT_PART: Final = "<chat_history>"
BY_PROMPT: Final = "by_prompt"


def side_job(headers: Mapping[str, str], last_message: str) -> str | None:
    """Return the side job's name from the header, None for a question.

    The name is ``by_prompt`` where only the prompt reveals the job.
    """
    named = headers.get(_TASK, "").strip()
    if _TASK_NAME.fullmatch(named):
        return named
    return BY_PROMPT if last_message.lstrip().startswith(_PROMPT_HEAD) and _PROMPT_PART in last_message else None


def model_for(services: Services, model: str, job: str | None, principal: Principal) -> ServedModel:
    """Return the requested model, or its base for a side job, which the key must also be allowed to use.

    Raises:
        RequestError: the key has no such model.
    """
    found = services.find(model, principal)
    return found if job is None else services.find(services.lifecycle.card.name, principal)


class OpenWebUiRenderer:
    """Render the events of one answer for Open WebUI; the last status marks the end of the steps."""

    def __init__(self) -> None:
        self._calls = 0
        self._has_status = False

    def of(self, event: Event, choice: Choice) -> list[dict[str, Any]]:
        match event:
            case Step(text=text):
                return [self._status(text)]
            case CallMade(url=url):
                self._calls += 1
                return [self._status(call_query(url))]
            case CallReplied(url=url, summary=summary):
                return [self._status(f"{call_query(url)} → {summary}")]
            case Retrieved(queries=queries, sources=sources):
                return [self._status(f"searched for {', '.join(queries)}; sources: {len(sources)}")]
            case Evidence(references=references):
                return [source(reference) for reference in references]
            case Done() if self._has_status:
                calls = f"{self._calls} call{'' if self._calls == 1 else 's'}; " if self._calls else ""
                return [_status(f"{calls}{choice.left}", done=True)]
            case _:
                return []

    def _status(self, text: str) -> dict[str, Any]:
        self._has_status = True
        return _status(text, done=False)


def renderer_for(
    headers: Mapping[str, str], options: Mapping[str, Any]
) -> tuple[OpenWebUiRenderer | None, dict[str, Any]]:
    """Return the renderer of Open WebUI's events, None for none, and the remaining options for the method.

    ``arrowhead.events`` decides where the client sets it, else the client's headers.

    Raises:
        OptionInvalid: ``arrowhead.events`` is not a boolean.
    """
    remaining = dict(options)
    enabled = remaining.pop("events", None)
    if enabled is not None and not isinstance(enabled, bool):
        raise OptionInvalid("arrowhead.events: must be true or false", param="arrowhead.events")
    if enabled is None:
        enabled = any(name.lower().startswith(_HEADERS) for name in headers)
    return (OpenWebUiRenderer() if enabled else None), remaining


def source(reference: Reference) -> dict[str, Any]:
    """Return a source event; Open WebUI merges sources with the same id and numbers them in order of arrival."""
    place = reference.url or reference.title
    named = {"name": reference.title, "id": place} | ({"url": reference.url} if reference.url else {})
    metadata = {"source": place, "name": reference.title}
    return {
        "type": "source",
        "data": {"source": named, "document": [reference.text or reference.title], "metadata": [metadata]},
    }


def _status(text: str, *, done: bool) -> dict[str, Any]:
    return {"type": "status", "data": {"description": text, "done": done, "hidden": False}}


_PATH: Final = "/v1/passages/"
_LINK: Final = re.compile(rf"(?<=\]\(){_PATH}")
# A host with its port, without anything that could end a link.
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?")
_ROOT: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")


def own_address(request: HTTPConnection, allowed_hosts: Collection[str]) -> str:
    """Return the address under which the client reached this server, without a slash at its end; "" if unknown.

    A proxy is trusted where it names a host of ``server.allowed_hosts``, in ``X-Forwarded-Host`` or ``Host``; uvicorn
    takes the scheme from ``X-Forwarded-Proto`` of loopback alone. Behind any other proxy, which may have replaced the
    host by one that the client cannot reach, the address is unknown.
    """
    names = frozenset(name.lower() for name in allowed_hosts)
    forwarded = request.headers.getlist("x-forwarded-host")
    hosts = forwarded or request.headers.getlist("host")
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]) or not _ROOT.fullmatch(root := _root(request)):
        return ""
    host = hosts[0]
    if host_name(host) not in names:
        if forwarded or "forwarded" in request.headers:
            return ""
        if is_local_name(host_name(host), ()) and not _is_own_port(request, host):
            return ""
    return f"{request.scope.get('scheme', 'http')}://{host}{root}"


def _root(request: HTTPConnection) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")


def _is_own_port(request: HTTPConnection, host: str) -> bool:
    """Return whether a host names the port on which the request arrived; a proxy often leaves it out."""
    server = request.scope.get("server") or ("", None)
    port = host.removeprefix(host_name(host)).removeprefix(":")
    return server[1] is not None and (int(port) if port else 80) == server[1]


class EventAddresses:
    """Complete the addresses in the events of one answer, in order; references still point at their markers."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._num_chars = 0
        self._places: list[int] = []  # positions in the input at which the address was put in

    def of(self, event: Event) -> Iterator[Event]:
        match event:
            case TextDelta(text=text, channel="answer") if self._base:
                self._places += [self._num_chars + found.start() for found in _LINK.finditer(text)]
                self._num_chars += len(text)
                yield replace(event, text=_LINK.sub(lambda found: self._base + found[0], text))
            case Evidence(references=references) if self._base:
                yield Evidence(tuple(self._moved(reference) for reference in references))
            case _:
                yield event

    def _moved(self, reference: Reference) -> Reference:
        url = f"{self._base}{reference.url}" if reference.url.startswith(_PATH) else reference.url
        if not reference.end:
            return replace(reference, url=url)
        shift = len(self._base) * bisect_right(self._places, reference.start)
        return replace(reference, url=url, start=reference.start + shift, end=reference.end + shift)
