"""Serve ``GET /v1/models`` and ``GET /v1/models/{id}``: each base model and each method over it."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from server.api.declarations import Reply, errors
from server.methods.shared.synthesis import Synthesis
from server.wiring.services import ServedModel, Services

router = APIRouter(tags=["Answers"])


class Capability(Reply):
    """Say how the served model's answers are made: the ways in order, the default first, [] for none."""

    synthesis: list[Synthesis]


class Model(Reply):
    """Describe a base model, or a method over it."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    ready: bool
    description: str
    base: str
    method: str
    licence: str
    max_model_len: int
    arrowhead: Capability


class ModelList(Reply):
    """List the models that the key may use."""

    object: Literal["list"]
    data: list[Model]


@router.get("/v1/models", summary="List models and methods", responses={200: {"model": ModelList}})
async def list_models(request: Request) -> Response:
    services: Services = request.app.state.services
    models = [_model(services, served) for served in services.models(request.state.principal)]
    return JSONResponse({"object": "list", "data": models})


@router.get(
    "/v1/models/{model:path}", summary="Describe one model or method", responses={200: {"model": Model}, **errors(404)}
)
async def get_model(request: Request, model: str) -> Response:
    services: Services = request.app.state.services
    return JSONResponse(_model(services, services.find(model, request.state.principal)))


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
        "arrowhead": {"synthesis": list(served.syntheses)},
    }
