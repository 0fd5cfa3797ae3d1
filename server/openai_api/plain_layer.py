"""Hands requests for the plain model to the engine's own OpenAI layer, where it has one (vLLM).

The layer takes whatever a client may send ``vllm serve``. What must not reach it from outside is refused before by
name: what would fetch an address, read a file, jump the queue, or cost far more than the request says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from fastapi import Request, Response

from models.engines.base import LayerCall, ServesOpenAi
from server.fair_queue import CHARS_PER_TOKEN, Ticket, estimated_tokens
from server.grants import Grant
from server.openai_api.exchange import TIMEOUT_HEADER, timeout_seconds
from server.openai_api.plain_checks import check_plain
from server.openai_api.plain_passing import Passage, PlainReply
from server.services import Services

# A model without a chat template has no roles: there our own form of a question is used instead.
NEED_TEMPLATE: Final = frozenset({"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"})
# Others steer vLLM's scheduler (X-Vllm-Priority, X-data-parallel-rank, X-Session-ID) or are ours (the key).
_HEADERS: Final = frozenset({b"accept", b"content-type", b"user-agent", b"traceparent", b"tracestate"})
_ANSWER_LENGTHS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")


async def plain_reply(request: Request, body: object) -> Response | None:
    """The layer's reply; None where this request is for our own code: another model, a method, another engine.

    Raises:
        InvalidRequest, UnsupportedField: what is not let through.
        ModelUnknown: this key may not ask the plain model. ServerStopping.
    """
    services: Services = request.app.state.services
    if not isinstance(body, dict) or body.get("model") != services.slot.card.name or body.get("arrowhead"):
        return None
    engine = services.slot.get()
    if not isinstance(engine, ServesOpenAi):
        return None
    if request.scope["path"] in NEED_TEMPLATE and services.slot.card.prompt_form != "chat":
        return None
    grant: Grant = request.state.grant
    services.find(services.slot.card.name, grant)
    services.admission.check()
    seconds = services.settings.server.request_timeout_s
    if (given := request.headers.get(TIMEOUT_HEADER)) is not None:
        seconds = min(seconds, timeout_seconds(given))
    call = LayerCall(
        path=request.scope["path"],
        body=plain_body(check_plain(body, services.settings.server.max_n), grant.key_id),
        headers=tuple((name, value) for name, value in request.scope["headers"] if name in _HEADERS),
    )
    passage = Passage(
        layer=await engine.openai_layer(),
        call=call,
        grant=grant,
        ticket=Ticket(grant.key_id, _tokens(services, body)),
        deadline=asyncio.get_running_loop().time() + seconds,
        keepalive_s=services.settings.server.keepalive_s,
        choices=0 if request.scope["path"].endswith("/count_tokens") else _choices(body),
    )
    return PlainReply(services, passage)


def plain_body(body: Mapping[str, Any], key_id: str) -> Mapping[str, Any]:
    """One key's cached prefixes are not another's: the time to the first token would tell what was asked before."""
    salt = f"{key_id}:{body['cache_salt']}" if body.get("cache_salt") else key_id
    sent = {name: value for name, value in body.items() if name not in ("arrowhead", "cache_salt")}
    return sent | ({"cache_salt": salt} if salt else {})


def _tokens(services: Services, body: Mapping[str, Any]) -> int:
    """An estimate: wrong fields are refused by the layer, later."""
    default = services.settings.loop.max_answer_tokens
    lengths = [body[name] for name in _ANSWER_LENGTHS if isinstance(body.get(name), int) and body[name] > 0]
    estimate = estimated_tokens(num_chars(body), max(lengths, default=default))
    return int(min(estimate, services.slot.card.context_length) * _choices(body))


def num_chars(value: object) -> int:
    """Of all texts in ``value``, JSON's values; a list of numbers is a prompt that is tokens already."""
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
