"""Lets the engine's own OpenAI layer send its reply, with our place, deadline and end around it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Response

from models.engines.base import AsgiApp
from server.answer_watch import log_answer
from server.errors import error_reply
from server.fair_queue import Ticket
from server.grants import Grant
from server.guard import log_failure, send_error
from server.logging_setup import request_id
from server.openai_api import sse
from server.openai_api.keepalive import KeepAlive
from server.openai_api.plain_watch import PlainWatch, ReplyReading, outcome_of
from server.services import Services

log = logging.getLogger(__name__)

_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]
# Others steer vLLM's scheduler (X-Vllm-Priority, X-data-parallel-rank, X-Session-ID) or are ours (the key).
_HEADERS: Final = frozenset({b"accept", b"content-type", b"user-agent", b"traceparent", b"tracestate"})
# How long the layer may take to end its request when it is told that the client has gone.
_LETTING_GO_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """``deadline`` is of the event loop's clock. ``choices`` 0: it counts tokens, so it is no answer. A stream that is
    silent for ``keepalive_s`` carries a comment: the layer's own way to do that costs two tasks for each piece."""

    layer: AsgiApp
    body: bytes
    grant: Grant
    ticket: Ticket
    deadline: float
    keepalive_s: float
    choices: int = 1


class PlainReply(Response):
    """Is sent by the layer itself, piece by piece as it comes."""

    def __init__(self, services: Services, passage: Passage) -> None:
        super().__init__()
        self._services = services
        self._passage = passage

    async def __call__(self, scope: Any, receive: _Receive, send: _Send) -> None:
        kept = KeepAlive(send, self._passage.keepalive_s)
        wire = _Wire(self._passage.body, receive, kept)
        watch = PlainWatch(self._services.observer, self._services.slot.card.name, self._passage.choices)
        outcome, has_place, request = "cancelled", False, request_id.get()
        try:
            async with self._services.admission.place(self._passage.ticket, self._passage.deadline) as leash:
                has_place = self._passage.choices > 0
                if has_place:
                    request_id.set(watch.id)
                    watch.begin()
                layer = asyncio.create_task(_run(self._passage.layer, _scope(scope, self._passage.body), wire))
                try:
                    async with leash.bound(), kept.beating():
                        await asyncio.shield(layer)
                finally:
                    await wire.let_go(layer)
            outcome = outcome_of(wire.status, wire.reading) if wire.ended else "cancelled"
        except Exception as error:
            log_failure(error)
            outcome = error_reply(error).code
            await wire.fail(error)
        finally:
            if wire.status >= 400:
                scope.setdefault("state", {})["error_code"] = outcome
            if has_place:
                self._services.spend(self._passage.grant.owner, wire.reading.sampled)
                log_answer(watch.end(outcome, wire.reading), request, {"reply": wire.reading.id or "-"})


async def _run(layer: AsgiApp, scope: dict[str, Any], wire: _Wire) -> None:
    await layer(scope, wire.receive, wire.send)


class _Wire:
    """Between the layer and the client: hands the body in, watches what comes out, and can end both."""

    def __init__(self, body: bytes, receive: _Receive, send: _Send) -> None:
        self._body: bytes | None = body
        self._receive = receive
        self._send = send
        self._gone = asyncio.Event()
        self.reading = ReplyReading()
        self.ended = False
        self.status = 0

    async def receive(self) -> Any:
        """The body once; then that the client has gone, when it has or when this answer is over."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        client, over = asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait({client, over}, return_when=asyncio.FIRST_COMPLETED)
            return client.result() if client.done() and not self._gone.is_set() else {"type": "http.disconnect"}
        finally:
            for waiting in (client, over):
                waiting.cancel()

    async def send(self, message: Any) -> None:
        if self._gone.is_set():
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.reading.is_stream = sse.is_stream(message)
        else:
            self.reading.feed(message.get("body", b""))
            self.ended = not message.get("more_body", False)
        await self._send(message)

    async def let_go(self, layer: asyncio.Task[None]) -> None:
        """vLLM ends a request when its client leaves; being cancelled, it would leave what it began running."""
        self._gone.set()
        if not layer.done():
            await asyncio.wait({layer}, timeout=_LETTING_GO_S)
        if not layer.done():
            layer.cancel()
            await asyncio.gather(layer, return_exceptions=True)

    async def fail(self, error: Exception) -> None:
        reply = error_reply(error)
        if not self.status:
            self.status = reply.status
            await send_error(reply, self._send)
        elif self.reading.is_stream and not self.ended:
            last = sse.error_event(reply) + sse.DONE
            await self._send({"type": "http.response.body", "body": last, "more_body": False})
        elif not self.ended:
            raise error


def _scope(scope: Mapping[str, Any], body: bytes) -> dict[str, Any]:
    headers = [(name, value) for name, value in scope["headers"] if name in _HEADERS]
    headers.append((b"content-length", b"%d" % len(body)))
    kept = {name: scope[name] for name in ("type", "http_version", "method", "scheme", "path", "raw_path")}
    return kept | {
        # Up to 2.3 an application listens for the client's leaving while it streams; later it waits for a failing send.
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "headers": headers,
        "query_string": b"",
        "root_path": "",
        "client": scope.get("client"),
        "server": scope.get("server"),
        "state": {},
    }


def plain_body(body: Mapping[str, Any], key_id: str) -> bytes:
    """One key's cached prefixes are not another's: the time to the first token would tell what was asked before."""
    salt = f"{key_id}:{body['cache_salt']}" if body.get("cache_salt") else key_id
    sent = {name: value for name, value in body.items() if name not in ("arrowhead", "cache_salt")}
    return json.dumps(sent | ({"cache_salt": salt} if salt else {}), ensure_ascii=False).encode()
