"""Hands requests for the plain model to the engine's own OpenAI layer, where it has one (vLLM).

The layer takes whatever a client may send ``vllm serve``. What must not reach it from outside is refused before by
name: what would fetch an address, read a file, jump the queue, or cost far more than the request says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from fastapi import Request, Response

from models.engines.base import ServesOpenAi
from server.fair_queue import Ticket, estimated_tokens
from server.grants import Grant
from server.openai_api.exchange import TIMEOUT_HEADER, timeout_seconds
from server.openai_api.plain_checks import check_plain
from server.openai_api.plain_passing import Passage, PlainReply, plain_body
from server.services import Services

# A model without a chat template has no roles: there our own form of a question is used instead.
NEED_TEMPLATE: Final = frozenset({"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"})
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
    sent = plain_body(check_plain(body, services.settings.server.max_n), grant.key_id)
    passage = Passage(
        layer=await engine.openai_layer(),
        body=sent,
        grant=grant,
        ticket=Ticket(grant.key_id, _tokens(services, body, len(sent))),
        deadline=asyncio.get_running_loop().time() + seconds,
        keepalive_s=services.settings.server.keepalive_s,
        choices=0 if request.scope["path"].endswith("/count_tokens") else _choices(body),
    )
    return PlainReply(services, passage)


def _tokens(services: Services, body: Mapping[str, Any], num_chars: int) -> int:
    """An estimate: wrong fields are refused by the layer, later."""
    default = services.settings.loop.max_answer_tokens
    lengths = [body[name] for name in _ANSWER_LENGTHS if isinstance(body.get(name), int) and body[name] > 0]
    each = min(estimated_tokens(num_chars, max(lengths, default=default)), services.slot.card.context_length)
    return int(each * _choices(body))


def _choices(body: Mapping[str, Any]) -> int:
    return body["n"] if isinstance(body.get("n"), int) and body["n"] > 0 else 1
