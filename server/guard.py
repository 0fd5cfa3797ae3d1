"""Check page, key and rate of each request, set its id, and reply with a plain 500 to unhandled exceptions.

Denies by default: a route needs a key unless ``door`` says that it is public. Pure ASGI middleware, so that streams
pass through unbuffered.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from models.errors import ArrowheadError
from server.door import Door
from server.error_reply import ErrorReply
from server.errors import error_reply
from server.incoming import Body, DecodedHeaders, check_head
from server.logging_setup import request_id
from server.request_ids import request_id_for

log = logging.getLogger(__name__)


class Guard:
    """Admit or refuse each HTTP request; refuse websockets."""

    def __init__(self, app: ASGIApp, door: Door, body_timeout_s: float) -> None:
        self._app = app
        self._door = door
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._guarded(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = DecodedHeaders(scope)
        rid = request_id_for(headers.get("x-request-id", ""))
        request_id.set(rid)
        started = False
        further = {"x-request-id": rid}
        body = Body(headers, receive, self._body_timeout_s)

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _add(MutableHeaders(scope=message), further | ({} if await body.settle() else {"connection": "close"}))
            await send(message)

        try:
            check_head(scope)
            further |= self._door.cors_headers(scope["method"], headers)
            self._door.check_page(scope["method"], headers)
            if self._door.is_preflight(scope["method"], headers):
                await _send(204, b"", {}, send_with_headers)
                return
            grant = self._door.admit(scope["path"], headers)
            scope.setdefault("state", {}).update(owner=grant.owner, grant=grant)
            try:
                self._door.take(grant)
            finally:
                further |= self._door.rate_headers(grant)
            await self._app(scope, body, send_with_headers)
        except Exception as error:
            log_failure(error)
            reply = error_reply(error)
            scope.setdefault("state", {})["error_code"] = reply.code
            if not started:
                await send_error(reply, send_with_headers)


def _add(headers: MutableHeaders, further: Mapping[str, str]) -> None:
    for name, value in further.items():
        if name == "vary":
            headers.add_vary_header(value)
        else:
            headers[name] = value


async def send_error(reply: ErrorReply, send: Send) -> None:
    headers = {"content-type": "application/json"}
    headers |= {name.lower(): value for name, value in reply.headers.items()}
    headers |= {"www-authenticate": "Bearer"} if reply.status == 401 else {}
    await _send(reply.status, json.dumps(reply.body).encode(), headers, send)


async def _send(status: int, body: bytes, headers: dict[str, str], send: Send) -> None:
    headers |= {"content-length": str(len(body))} if status != 204 else {}
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def log_failure(error: BaseException) -> None:
    """Log our errors at INFO by name, and others as errors with their traceback.

    The text of other errors is left out, since it may quote a question.
    """
    if isinstance(error, ArrowheadError):
        log.info("refused: kind=%s param=%s", type(error).__name__, error.param)
        return
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("unexpected %s\n%s", type(error).__name__, frames)
