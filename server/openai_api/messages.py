"""Serve ``POST /v1/messages`` and ``/v1/messages/count_tokens`` in Anthropic's form, where the engine supports it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from server.errors import InvalidRequest
from server.openai_api.body import read_json
from server.openai_api.plain_layer import plain_reply
from server.openai_api.raw_route import RawRoute
from server.services import Services

router = APIRouter(route_class=RawRoute)


@router.post("/v1/messages")
@router.post("/v1/messages/count_tokens")
async def messages(request: Request) -> Response:
    services: Services = request.app.state.services
    body = await read_json(request, services.settings.server.max_body_bytes)
    if isinstance(body, dict) and isinstance(body.get("model"), str):
        services.find(body["model"], request.state.grant)
    plain = await plain_reply(request, body)
    if plain is None:
        name = services.slot.card.name
        raise InvalidRequest(
            f"model: /v1/messages is served for {name} alone, by the vLLM engine; use /v1/chat/completions",
            param="model",
        )
    return plain
