"""Dispatch requests for the plain model to the engine's own OpenAI layer, where it has one (vLLM).

The layer accepts whatever a client may send to ``vllm serve``. This server first refuses, by name, fields that would
fetch an address, read a file, bypass the queue, or cost far more than the request shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from models.engines.base import LayerCall, ServesOpenAi
from server.admission import CHARS_PER_TOKEN, Ticket, estimated_tokens
from server.api.answers.session import TIMEOUT_HEADER, deadline_of
from server.api.declarations import TIMEOUT, Reads, errors
from server.api.http_request import Body, RawRoute, read_json
from server.api.vllm_passthrough.checks import check_plain
from server.api.vllm_passthrough.forward import PassthroughCall, PassthroughResponse
from server.auth.scopes import Principal
from server.errors import InvalidRequest
from server.methods.base import uses_chat_template
from server.methods.shared.synthesis import chats
from server.wiring.services import Services

# A model without a chat template has no roles, so our own prompt form is used instead.
NEED_TEMPLATE: Final = frozenset({"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"})
# Other headers control vLLM's scheduler (X-Vllm-Priority, X-data-parallel-rank, X-Session-ID) or carry our key.
_HEADERS: Final = frozenset({b"accept", b"content-type", b"user-agent", b"traceparent", b"tracestate"})
_ANSWER_LENGTHS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")


async def dispatch_plain(request: Request, body: object) -> Response | None:
    """Return the layer's reply, None where our own code answers: for another model, a method or another engine.

    Raises:
        InvalidRequest: a value is not valid.
        UnsupportedField: a field is not served.
        ModelUnknown: this key may not use the plain model.
        ServerStopping: the server stops.
    """
    services: Services = request.app.state.services
    if not isinstance(body, dict) or not _is_plain(services, body.get("model")) or body.get("arrowhead"):
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
    call = LayerCall(
        path=request.scope["path"],
        body=plain_body(check_plain(body, services.settings.server.max_n), principal.key_id),
        headers=tuple((name, value) for name, value in request.scope["headers"] if name in _HEADERS),
    )
    passthrough = PassthroughCall(
        layer=await engine.openai_layer(),
        call=call,
        principal=principal,
        ticket=Ticket(principal.key_id, _tokens(services, body)),
        deadline=deadline,
        keepalive_s=services.settings.server.keepalive_s,
        choices=0 if request.scope["path"].endswith("/count_tokens") else _choices(body),
    )
    return PassthroughResponse(services, passthrough)


def _is_plain(services: Services, model: object) -> bool:
    """Return whether ``model`` is the plain model or an adapter of it."""
    return isinstance(model, str) and (model == services.lifecycle.card.name or model in services.adapters)


def plain_body(body: Mapping[str, Any], key_id: str) -> Mapping[str, Any]:
    """Return the body for the layer, with a cache salt that separates the prefix caches of different keys.

    With a shared cache, the time to first token would reveal earlier prompts of other keys.
    """
    salt = f"{key_id}:{body['cache_salt']}" if body.get("cache_salt") else key_id
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


class MessagesRequest(Body):
    """Request a message in Anthropic's form, which this engine does not support: every body is refused."""

    model: str


router = APIRouter(route_class=RawRoute, tags=["Answers"])
_DESCRIBED: Final[Mapping[str, Any]] = {
    "summary": "Anthropic's form, of the plain model on the vLLM engine alone; refused elsewhere",
    "openapi_extra": Reads(MessagesRequest, [TIMEOUT]),
    "responses": errors(404, 413, 422, 429, 499, 500, 503, 504),
}


@router.post("/v1/messages", **_DESCRIBED)
@router.post("/v1/messages/count_tokens", **_DESCRIBED)
async def messages(request: Request) -> Response:
    services: Services = request.app.state.services
    body = await read_json(request, services.settings.server.max_body_bytes)
    if isinstance(body, dict) and isinstance(body.get("model"), str):
        services.find(body["model"], request.state.principal)
    plain = await dispatch_plain(request, body)
    if plain is None:
        name = services.lifecycle.card.name
        raise InvalidRequest(
            f"model: /v1/messages is served for {name} alone, by the vLLM engine; use /v1/chat/completions",
            param="model",
        )
    return plain
