"""Forward a request to the engine's own OpenAI layer, with this server's admission, deadline and error handling."""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Response

from models.engines.base import LayerCall, OpenAiLayer
from server.admission.fair_queue import Ticket
from server.api.answers.streaming import DONE, KeepAlive, error_event, is_stream
from server.api.http_request import cancel_on_disconnect
from server.auth.scopes import Principal
from server.error_mapping import error_reply
from server.errors import ClientDisconnected
from server.middleware.security import log_failure, new_id, send_error
from server.observability.logging_setup import request_id
from server.observability.observer import AnswerRecord, Observer, TokenCounts, log_answer
from server.wiring.services import Services

_ENDS_BYTES: Final = 8192
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
    """Read the metrics from a reply, piece by piece.

    ``began_text`` is the monotonic time of the first text of a stream. ``has_failed``: a stream reported an error after
    its first byte.
    """

    def __init__(self) -> None:
        self.is_stream = False
        self.has_failed = False
        self.began_text: float | None = None
        self._head = b""
        self._pieces: deque[bytes] = deque()
        self._num_kept = 0
        self._events = 0

    def feed(self, body: bytes) -> None:
        if len(self._head) < _ENDS_BYTES:
            self._head += body[: _ENDS_BYTES - len(self._head)]
        self._pieces.append(body)
        self._num_kept += len(body)
        while self._num_kept - len(self._pieces[0]) >= _ENDS_BYTES:
            self._num_kept -= len(self._pieces.popleft())
        if not self.is_stream:
            return
        # A substring search is faster than the pattern for most pieces.
        if not self.has_failed and (b'"error' in body or b"response.failed" in body):
            self.has_failed = _FAILED.search(body) is not None
        events = body.count(b"data: {")
        self._events += events
        if self.began_text is None and events > len(_PREFACE.findall(body)):
            self.began_text = time.monotonic()

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
        tail = b"".join(self._pieces)
        told = _usage(self._head, self._head.find(_USAGE)) | _usage(tail, tail.rfind(_USAGE))
        prompt, cached, sampled = told.get("prompt", 0), told.get("cached", 0), told.get("sampled", 0) or self._events
        computed = prompt - cached + sampled if prompt else 0
        return TokenCounts(prompt=prompt, sampled=sampled, cached=cached, computed=computed)


def _usage(reply: bytes, start: int) -> dict[str, int]:
    if start < 0:
        return {}
    found = {name: pattern.search(reply, start, start + _USAGE_BYTES) for name, pattern in _NUMBERS.items()}
    return {name: int(number[1]) for name, number in found.items() if number is not None}


class PassthroughMetrics:
    """Report one answer to the observer; ``id`` is ours, since the layer's own id is known only from the reply."""

    def __init__(self, observer: Observer, model: str, choices: int) -> None:
        self.id = f"plain-{new_id()}"
        self._observer = observer
        self._model = model
        self._choices = choices
        self._began = 0.0

    def begin(self) -> None:
        self._began = time.monotonic()
        self._observer.answer_began(self.id, self._model)

    def end(self, outcome: str, first: float | None, tokens: TokenCounts) -> AnswerRecord:
        """Report the end of the answer; ``first`` is the time of the first text, as ``began_text``."""
        record = AnswerRecord(
            id=self.id,
            model=self._model,
            outcome=outcome,
            seconds=time.monotonic() - self._began,
            first_s=None if first is None else max(0.0, first - self._began),
            choices=self._choices,
            tokens=tokens if outcome == "ok" else TokenCounts(),
        )
        self._observer.answer_ended(record)
        return record


def outcome_of(status: int, reading: ReplyReading) -> str:
    """Return the outcome of a complete reply: ``ok``, or our error code for the layer's status."""
    if 200 <= status < 300:
        return "model_error" if reading.has_failed else "ok"
    return _CODES.get(status, "invalid_value" if status < 500 else "model_error")


log = logging.getLogger(__name__)
_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassthroughCall:
    """Hold one request for the engine's OpenAI layer.

    ``deadline`` is in the event loop's time. ``choices`` 0 marks a token count, which is no answer. A stream that is
    idle for ``keepalive_s`` sends a comment: the layer's own mechanism costs two tasks for each piece.
    """

    layer: OpenAiLayer
    call: LayerCall
    principal: Principal
    ticket: Ticket
    deadline: float
    keepalive_s: float
    choices: int = 1


class PassthroughResponse(Response):
    """Let the layer send the reply itself, piece by piece as it is produced."""

    def __init__(self, services: Services, passage: PassthroughCall) -> None:
        super().__init__()
        self._services = services
        self._passage = passage

    async def __call__(self, scope: Any, receive: _Receive, send: _Send) -> None:
        kept = KeepAlive(send, self._passage.keepalive_s, scope["state"].get("send_piece"))
        wire = _Wire(kept)
        watch = PassthroughMetrics(self._services.observer, self._services.lifecycle.card.name, self._passage.choices)
        outcome, is_admitted, request = "cancelled", False, request_id.get()
        try:
            place = self._services.admission.place(self._passage.ticket, self._passage.deadline)
            async with cancel_on_disconnect(receive, lambda: wire.ended), place as cancel_scope, kept:
                is_admitted = self._passage.choices > 0
                if is_admitted:
                    request_id.set(watch.id)
                    watch.begin()
                with cancel_scope:
                    await self._passage.layer(self._passage.call, wire.send)
            outcome = outcome_of(wire.status, wire.reading) if wire.ended else "cancelled"
        except ClientDisconnected:
            log.info("a client went away before its answer was complete")
        except Exception as error:
            log_failure(error)
            outcome = error_reply(error).code
            await wire.fail(error)
        finally:
            request_id.set(request)  # the request's access-log line follows later
            if wire.status >= 400:
                scope.setdefault("state", {})["error_code"] = outcome
            if is_admitted:
                tokens = wire.reading.tokens
                self._services.spend(self._passage.principal.owner, tokens.sampled)
                record = watch.end(outcome, wire.reading.began_text, tokens)
                log_answer(record, request, {"reply": wire.reading.id or "-"})


class _Wire:
    """Forward the layer's messages to the client and read the reply from them."""

    def __init__(self, send: _Send) -> None:
        self._send = send
        self.reading = ReplyReading()
        self.ended = False
        self.status = 0

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.reading.is_stream = is_stream(message)
        else:
            self.reading.feed(message.get("body", b""))
            self.ended = not message.get("more_body", False)
        await self._send(message)

    async def fail(self, error: Exception) -> None:
        reply = error_reply(error)
        if not self.status:
            self.status = reply.status
            await send_error(reply, self._send)
        elif self.reading.is_stream and not self.ended:
            last = error_event(reply) + DONE
            await self._send({"type": "http.response.body", "body": last, "more_body": False})
        elif not self.ended:
            raise error
