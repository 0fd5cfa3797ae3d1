"""Serve ``GET /v1/models`` and ``GET /v1/models/{id}``: each base model and each method over it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from server.wiring.services import ServedModel, Services

router = APIRouter()


@router.get("/v1/models")
async def list_models(request: Request) -> dict[str, Any]:
    services: Services = request.app.state.services
    return {"object": "list", "data": [_model(services, served) for served in services.models(request.state.principal)]}


@router.get("/v1/models/{model:path}")
async def get_model(request: Request, model: str) -> dict[str, Any]:
    services: Services = request.app.state.services
    return _model(services, services.find(model, request.state.principal))


def _model(services: Services, served: ServedModel) -> dict[str, Any]:
    card = services.lifecycle.card
    return {
        "id": served.id,
        "object": "model",
        "created": services.created,
        "owned_by": "arrowhead",
        "ready": services.lifecycle.state == "ready",
        "description": served.method.description,
        "base": card.name,
        "method": served.method.name,
        "licence": card.licence,
        "max_model_len": services.settings.model.max_model_len or card.context_length,
    }
