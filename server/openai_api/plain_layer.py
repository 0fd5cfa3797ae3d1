"""Hands requests for the plain model to the engine's own OpenAI layer, where it has one (vLLM).

The layer takes whatever a client may send ``vllm serve``. What must not reach it from outside is refused here by name:
what would fetch an address, read a file, jump the queue, or cost far more than the request says.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request, Response

from models.engines.base import AsgiApp, ServesOpenAi
from server.errors import error_reply
from server.grants import Grant
from server.openai_api.plain_checks import check_plain
from server.services import Services

log = logging.getLogger(__name__)

_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]
# Others steer vLLM's scheduler (X-Vllm-Priority, X-data-parallel-rank, X-Session-ID) or are ours (the key).
_HEADERS: Final = frozenset({b"accept", b"content-type", b"user-agent", b"traceparent", b"tracestate"})
# A model without a chat template has no roles: there our own form of a question is used instead.
_NEED_TEMPLATE: Final = frozenset(
    {"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"}
)


async def plain_reply(request: Request, body: object) -> Response | None:
    """The layer's reply; None where this request is for our own code: another model, a method, another engine.

    Raises:
        InvalidRequest, UnsupportedField: what is not let through.
    """
    services: Services = request.app.state.services
    if not isinstance(body, dict) or body.get("model") != services.slot.card.name or body.get("arrowhead"):
        return None
    engine = services.slot.get()
    if not isinstance(engine, ServesOpenAi):
        return None
    if request.url.path in _NEED_TEMPLATE and services.slot.card.prompt_form != "chat":
        return None
    grant: Grant = request.state.grant
    services.find(services.slot.card.name, grant)
    checked = check_plain(body, services.settings.server.max_n)
    return PlainReply(services, await engine.openai_layer(), _salted(checked, grant.key_id))


def _salted(body: Mapping[str, Any], key_id: str) -> bytes:
    """One key's cached prefixes are not another's: the time to the first token would tell what was asked before."""
    salt = f"{key_id}:{body['cache_salt']}" if body.get("cache_salt") else key_id
    sent = {name: value for name, value in body.items() if name not in ("arrowhead", "cache_salt")}
    return json.dumps(sent | ({"cache_salt": salt} if salt else {}), ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class _Passed:
    """The scope and the body as the layer gets them."""

    scope: dict[str, Any]
    body: bytes

    async def receive(self, rest: _Receive, sent: list[bool]) -> Any:
        """The body once; then what else comes, which is that the client has gone."""
        if not sent:
            sent.append(True)
            return {"type": "http.request", "body": self.body, "more_body": False}
        return await rest()


class PlainReply(Response):
    """Is sent by the layer itself, piece by piece as it comes."""

    def __init__(self, services: Services, layer: AsgiApp, body: bytes) -> None:
        super().__init__()
        self._services = services
        self._layer = layer
        self._sent_body = body

    async def __call__(self, scope: Any, receive: _Receive, send: _Send) -> None:
        passed = _Passed(_scope(scope, len(self._sent_body)), self._sent_body)
        sent: list[bool] = []
        started, status = time.monotonic(), 0

        async def watched(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            async with self._services.admitted():
                await self._layer(passed.scope, lambda: passed.receive(receive, sent), watched)
        except Exception as error:
            if status:
                raise
            status = await _send_error(error, send)
        finally:
            seconds = time.monotonic() - started
            model = self._services.slot.card.name
            log.info("plain answer: path=%s model=%s status=%d seconds=%.2f", scope["path"], model, status, seconds)


def _scope(scope: Mapping[str, Any], length: int) -> dict[str, Any]:
    headers = [(name, value) for name, value in scope["headers"] if name in _HEADERS]
    headers.append((b"content-length", b"%d" % length))
    kept = {name: scope[name] for name in ("type", "asgi", "http_version", "method", "scheme", "path", "raw_path")}
    return kept | {
        "headers": headers,
        "query_string": b"",
        "root_path": "",
        "client": scope.get("client"),
        "server": scope.get("server"),
        "state": {},
    }


async def _send_error(error: Exception, send: _Send) -> int:
    reply = error_reply(error)
    headers = [(b"content-type", b"application/json")]
    if reply.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % reply.retry_after_s))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(reply.body).encode()})
    return reply.status
