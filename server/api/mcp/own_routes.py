"""Ask this server's own routes for a tool of MCP, as the key of the request and under its scopes.

The request has passed access control and rate limit already, so that one call of a tool is one request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.types import Message

from server.errors import Fault, RequestError


async def ask_route(request: Request, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Return the JSON of a route's reply.

    Raises:
        ArrowheadError: the route refused or failed, with its own message.
    """
    sent = b"" if body is None else json.dumps(body).encode()
    kept = [(name, value) for name, value in request.headers.raw if name in (b"host", b"x-request-timeout")]
    headers = [*kept, (b"content-type", b"application/json"), (b"content-length", str(len(sent)).encode())]
    scope = {
        **request.scope,
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
    }
    unread: list[Message] = [{"type": "http.request", "body": sent, "more_body": False}]
    status, received = 500, bytearray()

    async def receive() -> Message:
        if unread:
            return unread.pop()
        # Until the route has replied; a client that leaves cancels the call as a whole.
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        received.extend(message.get("body", b""))

    await request.app.router(scope, receive, send)
    reply = json.loads(bytes(received) or b"null")
    if status >= 400:
        error = reply["error"]
        raise RequestError(error["message"], Fault(status, str(error["code"]), ""), param=error.get("param"))
    return reply
