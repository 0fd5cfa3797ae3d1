"""Forward a request to the engine's own OpenAI layer, with this server's admission, deadline and error handling."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import Response

from models.engines.base import LayerCall, OpenAiLayer
from server.answer_watch import log_answer
from server.errors import ClientGone, error_reply
from server.fair_queue import Ticket
from server.grants import Grant
from server.guard import log_failure, send_error
from server.logging_setup import request_id
from server.openai_api import sse
from server.openai_api.attending import attended
from server.openai_api.keepalive import KeepAlive
from server.openai_api.plain_watch import PlainWatch, ReplyReading, outcome_of
from server.services import Services

log = logging.getLogger(__name__)

_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """Hold one request for the engine's OpenAI layer.

    ``deadline`` is in the event loop's time. ``choices`` 0 marks a token count, which is no answer. A stream that is
    idle for ``keepalive_s`` sends a comment: the layer's own mechanism costs two tasks for each piece.
    """

    layer: OpenAiLayer
    call: LayerCall
    grant: Grant
    ticket: Ticket
    deadline: float
    keepalive_s: float
    choices: int = 1


class PlainReply(Response):
    """Let the layer send the reply itself, piece by piece as it is produced."""

    def __init__(self, services: Services, passage: Passage) -> None:
        super().__init__()
        self._services = services
        self._passage = passage

    async def __call__(self, scope: Any, receive: _Receive, send: _Send) -> None:
        kept = KeepAlive(send, self._passage.keepalive_s, scope["state"].get("send_piece"))
        wire = _Wire(kept)
        watch = PlainWatch(self._services.observer, self._services.slot.card.name, self._passage.choices)
        outcome, has_place, request = "cancelled", False, request_id.get()
        try:
            place = self._services.admission.place(self._passage.ticket, self._passage.deadline)
            async with attended(receive, lambda: wire.ended), place as leash, kept:
                has_place = self._passage.choices > 0
                if has_place:
                    request_id.set(watch.id)
                    watch.begin()
                with leash:
                    await self._passage.layer(self._passage.call, wire.send)
            outcome = outcome_of(wire.status, wire.reading) if wire.ended else "cancelled"
        except ClientGone:
            log.info("a client went away before its answer was complete")
        except Exception as error:
            log_failure(error)
            outcome = error_reply(error).code
            await wire.fail(error)
        finally:
            request_id.set(request)  # the request's access-log line follows later
            if wire.status >= 400:
                scope.setdefault("state", {})["error_code"] = outcome
            if has_place:
                tokens = wire.reading.tokens
                self._services.spend(self._passage.grant.owner, tokens.sampled)
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
            self.reading.is_stream = sse.is_stream(message)
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
            last = sse.error_event(reply) + sse.DONE
            await self._send({"type": "http.response.body", "body": last, "more_body": False})
        elif not self.ended:
            raise error
