"""Forward requests for the plain model to the engine's own OpenAI layer, where it has one (vLLM).

The layer accepts whatever a client may send to ``vllm serve``. This server first refuses, by name, fields that would
fetch an address, read a file, bypass the queue, or cost far more than the request shows. A forwarded request has this
server's admission, deadline and error handling, and its metrics are read from the layer's reply.
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request, Response

from models.engines.base import LayerCall, OpenAiLayer, ServesOpenAi
from server.admission import CHARS_PER_TOKEN, CancelScope, Ticket, estimated_tokens
from server.api.answers.session import TIMEOUT_HEADER, Account, AnswerSession, deadline_of
from server.api.http_io import (
    DONE,
    KEEPALIVE_S,
    MAX_CHOICES,
    KeepAlive,
    cancel_on_disconnect,
    error_event,
    is_stream,
    named_event,
)
from server.api.vllm_passthrough.checks import check_plain
from server.api.vllm_passthrough.history import readable_history
from server.auth.authentication import Principal
from server.error_mapping import ANTHROPIC_PATHS, error_reply
from server.errors import CLIENT_GONE
from server.methods.base import uses_chat_template
from server.methods.shared.synthesis import chats
from server.middleware import log_failure, new_id, send_error
from server.observability.observer import AnswerMetrics, TokenCounts
from server.wiring.services import Services

log = logging.getLogger(__name__)
_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]

# A model without a chat template has no roles, so our own prompt form is used instead.
_RESPONSES: Final = "/v1/responses"
NEED_TEMPLATE: Final = frozenset({"/v1/chat/completions", _RESPONSES, "/v1/messages", "/v1/messages/count_tokens"})
# Other headers control vLLM's scheduler (X-Vllm-Priority, X-data-parallel-rank, X-Session-ID) or carry our key.
_HEADERS: Final = frozenset({b"accept", b"content-type", b"user-agent", b"traceparent", b"tracestate"})
_ANSWER_LENGTHS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")


async def dispatch_plain(request: Request, body: object) -> Response | None:
    """Return the layer's reply, None where our own code answers: for another model, a method or another engine.

    Raises:
        RequestError: a value is not valid.
        UNSUPPORTED_FIELD: a field is not served.
        RequestError: this key may not use the plain model; the server stops.
    """
    services: Services = request.app.state.services
    if not isinstance(body, dict) or not is_plain(services, body.get("model")) or body.get("arrowhead"):
        return None
    engine = services.lifecycle.get()
    if not isinstance(engine, ServesOpenAi):
        return None
    card = services.lifecycle.card
    if request.scope["path"] in NEED_TEMPLATE and not (uses_chat_template(engine, card) and chats(card)):
        return None
    principal: Principal = request.state.principal
    services.find(body["model"], principal)
    services.admission.check()
    deadline = deadline_of(services, request.headers.get(TIMEOUT_HEADER))
    checked = check_plain(body, MAX_CHOICES)
    if request.scope["path"] == _RESPONSES:
        checked = readable_history(checked)
    call = LayerCall(
        path=request.scope["path"],
        body=plain_body(checked, services.salt_for(principal.key_id)),
        headers=tuple((name, value) for name, value in request.scope["headers"] if name in _HEADERS),
    )
    passthrough = PassthroughCall(
        layer=await engine.openai_layer(),
        call=call,
        principal=principal,
        ticket=Ticket(principal.key_id, _tokens(services, body)),
        deadline=deadline,
        choices=0 if request.scope["path"].endswith("/count_tokens") else _choices(body),
    )
    return PassthroughResponse(services, passthrough)


def is_plain(services: Services, model: object) -> bool:
    """Return whether ``model`` is the plain model or an adapter of it."""
    return isinstance(model, str) and (model == services.lifecycle.card.name or model in services.adapters)


def plain_body(body: Mapping[str, Any], salt: str) -> Mapping[str, Any]:
    """Return the body for the layer, with a salt of the prefix cache: ``salt``, and behind it what the client sent."""
    salt = f"{salt}:{body['cache_salt']}" if body.get("cache_salt") else salt
    sent = {name: value for name, value in body.items() if name not in ("arrowhead", "cache_salt")}
    return sent | ({"cache_salt": salt} if salt else {})


def _tokens(services: Services, body: Mapping[str, Any]) -> int:
    """Return the estimated tokens of all choices; the layer refuses wrong fields later."""
    default = services.settings.loop.max_answer_tokens
    lengths = [body[name] for name in _ANSWER_LENGTHS if isinstance(body.get(name), int) and body[name] > 0]
    estimate = estimated_tokens(num_chars(body), max(lengths, default=default))
    return int(min(estimate, services.lifecycle.card.context_length) * _choices(body))


def num_chars(value: object) -> int:
    """Return the number of characters of all texts in a JSON value; a list of integers is a tokenized prompt."""
    total, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list) and one and isinstance(one[0], int):
            total += CHARS_PER_TOKEN * len(one)
        elif isinstance(one, list):
            waiting.extend(one)
    return total


def _choices(body: Mapping[str, Any]) -> int:
    return body["n"] if isinstance(body.get("n"), int) and body["n"] > 0 else 1


_ENDS_BYTES: Final = 8192
_LAST_PIECES: Final = 16
_EVENT: Final = b"data: {"
# Texts of the reply have escaped quotation marks, so they cannot contain the names of these members.
_USAGE: Final = b'"usage":'
_USAGE_BYTES: Final = 1024
_NUMBERS: Final = {
    "prompt": re.compile(rb'"(?:prompt_tokens|input_tokens)":\s*(\d+)'),
    "sampled": re.compile(rb'"(?:completion_tokens|output_tokens)":\s*(\d+)'),
    "cached": re.compile(rb'"(?:cached_tokens|cache_read_input_tokens)":\s*(\d+)'),
}
_ID: Final = re.compile(rb'"id":\s*"([A-Za-z0-9_-]{1,128})"')
# Events of a Responses stream that precede the model's first text.
_PREFACE: Final = re.compile(rb'"type":\s*"response\.(?:created|in_progress|queued|output_item\.added)"')
_FAILED: Final = re.compile(rb'^data: \{"(?:error"|type":\s*"(?:error|response\.failed)")', re.MULTILINE)
# Status of the layer -> our error code.
_CODES: Final = {404: "model_not_found", 413: "request_too_large", 429: "queue_full", 503: "engine_unavailable"}


class ReplyReading:
    """Read the metrics from a reply, piece by piece, most of it from the last pieces when it has ended.

    ``began_text`` is the monotonic time of the first text of a stream.
    """

    def __init__(self) -> None:
        self.is_stream = False
        self.began_text: float | None = None
        self._head = b""
        # Each piece of a stream is one event. The usage, and an error that ends the stream, are among the last ones.
        self._last: deque[bytes] = deque(maxlen=_LAST_PIECES)
        self._num_pieces = 0

    def feed(self, body: bytes) -> None:
        self._last.append(body)
        self._num_pieces += 1
        if len(self._head) < _ENDS_BYTES:
            self._head += body[: _ENDS_BYTES - len(self._head)]
        if self.began_text is None and self.is_stream and body.count(_EVENT) > len(_PREFACE.findall(body)):
            self.began_text = time.monotonic()

    @property
    def has_failed(self) -> bool:
        """Return whether a stream reported an error after its first byte."""
        return self.is_stream and any(_FAILED.search(piece) for piece in self._last)

    @property
    def id(self) -> str:
        """Return the reply's id as the client sees it, "" where there is none."""
        found = _ID.search(self._head)
        return found[1].decode() if found else ""

    @property
    def tokens(self) -> TokenCounts:
        """Return the token counts that the reply reports; ``computed`` as our own engines count it.

        For a stream without usage, ``sampled`` is the number of its events and the other counts are 0.
        """
        # The last usage counts, since a stream repeats it with growing numbers. Anthropic's form has the prompt's
        # tokens at its beginning.
        tail = b"".join(self._last)
        usage = _usage(self._head, self._head.find(_USAGE)) | _usage(tail, tail.rfind(_USAGE))
        prompt, cached = usage.get("prompt", 0), usage.get("cached", 0)
        sampled = usage.get("sampled", 0) or self._num_events
        computed = prompt - cached + sampled if prompt else 0
        return TokenCounts(prompt=prompt, sampled=sampled, cached=cached, computed=computed)

    @property
    def _num_events(self) -> int:
        return self._num_pieces - sum(_EVENT not in piece for piece in self._last) if self.is_stream else 0


def _usage(reply: bytes, start: int) -> dict[str, int]:
    if start < 0:
        return {}
    found = {name: pattern.search(reply, start, start + _USAGE_BYTES) for name, pattern in _NUMBERS.items()}
    return {name: int(number[1]) for name, number in found.items() if number is not None}


def outcome_of(status: int, reading: ReplyReading) -> str:
    """Return the outcome of a complete reply: ``ok``, or our error code for the layer's status."""
    if 200 <= status < 300:
        return "model_error" if reading.has_failed else "ok"
    return _CODES.get(status, "invalid_value" if status < 500 else "model_error")


@dataclass(frozen=True, slots=True, kw_only=True)
class PassthroughCall:
    """Hold one request for the engine's OpenAI layer.

    ``deadline`` is in the event loop's time. ``choices`` 0 marks a token count, which is no answer.
    """

    layer: OpenAiLayer
    call: LayerCall
    principal: Principal
    ticket: Ticket
    deadline: float
    choices: int = 1


class PassthroughResponse(Response):
    """Let the layer send the reply itself, piece by piece as it is produced."""

    def __init__(self, services: Services, passthrough: PassthroughCall) -> None:
        super().__init__()
        self._services = services
        self._passthrough = passthrough

    async def __call__(self, scope: Any, receive: _Receive, send: _Send) -> None:
        wire, code = _Wire(self._passthrough.call.path), ""
        # The layer's own mechanism costs two tasks for each piece.
        keepalive = KeepAlive(send, KEEPALIVE_S, scope["state"].get("send_piece"), wire.observe)
        try:
            async with (
                cancel_on_disconnect(receive, lambda: wire.ended),
                self._admitted(wire) as cancel_scope,
                keepalive,
            ):
                with cancel_scope:
                    await self._passthrough.layer(self._passthrough.call, keepalive)
            code = outcome_of(wire.status, wire.reading)
        except Exception as error:
            if CLIENT_GONE.is_of(error):
                log.info("a client went away before its answer was complete")
                return
            log_failure(error)
            code = error_reply(error).code
            await wire.fail(error, keepalive)
        finally:
            if wire.status >= 400:
                scope.setdefault("state", {})["error_code"] = code or "cancelled"

    def _admitted(self, wire: _Wire) -> AbstractAsyncContextManager[CancelScope]:
        """Return the block that holds the request's place: an answer session, or a place alone for a token count."""
        passthrough = self._passthrough
        if not passthrough.choices:
            return self._services.admission.place(passthrough.ticket, passthrough.deadline)
        # The layer's own id is known only from its reply.
        model = self._services.lifecycle.card.name
        metrics = AnswerMetrics(self._services.observer, f"plain-{new_id()}", model, passthrough.choices)
        session = AnswerSession(self._services, metrics, passthrough.principal.owner)
        return session.admitted(passthrough.ticket, passthrough.deadline, lambda: wire.account(metrics))


class _Wire:
    """Read the reply from the layer's messages, and end it where the layer fails."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.reading = ReplyReading()
        self.ended = False
        self.status = 0

    def observe(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.reading.is_stream = is_stream(message)
        else:
            self.reading.feed(message.get("body", b""))
            self.ended = not message.get("more_body", False)

    def account(self, metrics: AnswerMetrics) -> Account:
        """Return what the reply says that it used, and report the time of its first text."""
        if self.reading.began_text is not None:
            metrics.text_began(self.reading.began_text)
        outcome = outcome_of(self.status, self.reading) if self.ended else "cancelled"
        tokens = self.reading.tokens
        counted = tokens if outcome == "ok" else TokenCounts()
        return Account(counted, tokens.sampled, outcome, {"reply": self.reading.id or "-"})

    async def fail(self, error: Exception, send: _Send) -> None:
        reply = error_reply(error)
        if not self.status:
            self.status = reply.status
            await send_error(reply, self._path, send)
        elif self.reading.is_stream and not self.ended:
            last = named_event(reply.anthropic) if self._path in ANTHROPIC_PATHS else error_event(reply) + DONE
            await send({"type": "http.response.body", "body": last, "more_body": False})
        elif not self.ended:
            raise error
