"""The guarding layer: host name, key, request id, and a plain 500 for what nobody caught.

Deny by default: only the health routes and an empty page are open without a key. A pure ASGI layer, so that streams
pass untouched.
"""

from __future__ import annotations

import hmac
import json
import logging
import traceback
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from models.errors import ArrowheadError
from server.egress_settings import key_digest
from server.errors import ErrorReply, ForbiddenHost, Unauthorized, error_reply
from server.logging_setup import request_id
from server.request_ids import request_id_for
from server.settings import ServerSettings, is_loopback

log = logging.getLogger(__name__)

# The last three are a page with nothing in it: what it shows, it asks for with a key.
OPEN_PATHS = frozenset({"/health", "/ready", "/docs", "/docs/page.js", "/docs/page.css"})
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


class Guard:
    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._digests: Sequence[str] = [key_digest(key.get_secret_value()) for key in settings.api_keys]
        # A page of another site can reach a loopback server by a DNS name of its own, but not without naming it.
        self._hosts = _LOCAL_NAMES | set(settings.allowed_hosts) if is_loopback(settings.host) else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        rid = request_id_for(Headers(scope=scope).get("x-request-id", ""))
        request_id.set(rid)
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message)["x-request-id"] = rid
            await send(message)

        try:
            scope.setdefault("state", {})["owner"] = self._admit(scope)
            await self._app(scope, receive, send_with_id)
        except Exception as error:
            log_failure(error)
            reply = error_reply(error)
            scope["state"]["error_code"] = reply.code
            if not started:
                await send_error(reply, send_with_id)

    def _admit(self, scope: Scope) -> str:
        """Digest of the key, "" where the server has none. Raises Unauthorized or ForbiddenHost."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if self._hosts is not None and name.lower() not in self._hosts:
            raise ForbiddenHost("this server answers to its own address only")
        if not self._digests or scope["path"] in OPEN_PATHS:
            return ""
        scheme, _, key = headers.get("authorization", "").partition(" ")
        given = key_digest(key.strip())
        # All keys are compared, in constant time each: the time tells nothing about them.
        matches = [hmac.compare_digest(given, known) for known in self._digests]
        if scheme.lower() != "bearer" or not any(matches):
            raise Unauthorized("a valid API key is required")
        return given


async def send_error(reply: ErrorReply, send: Send) -> None:
    body = json.dumps(reply.body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"retry-after", str(reply.retry_after_s).encode())] if reply.retry_after_s else []
    headers += [(b"www-authenticate", b"Bearer")] if reply.status == 401 else []
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def log_failure(error: BaseException) -> None:
    """Ours at INFO by name; others as errors with where they happened, but without their text, which may quote a
    question."""
    if isinstance(error, ArrowheadError):
        log.info("refused: kind=%s param=%s", type(error).__name__, error.param)
        return
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("unexpected %s\n%s", type(error).__name__, frames)
