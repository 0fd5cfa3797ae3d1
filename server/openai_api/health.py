"""``/health`` (the process lives), ``/ready`` (it can answer), ``/version``."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from server.errors import RETRY_AFTER_S
from server.services import Services

router = APIRouter()


@router.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}


@router.get("/ready")
async def ready(request: Request) -> Response:
    """503 with the reason while the model loads, after it failed, and while the server stops."""
    services: Services = request.app.state.services
    slot = services.slot
    state = "draining" if services.draining else slot.state
    body: dict[str, Any] = {
        "status": state,
        "model": slot.card.name,
        "seconds": round(slot.seconds, 1),
        "egress": services.settings.egress.mode,
        "in_flight": services.in_flight,
    }
    if slot.failure is not None:
        # The text may name a path on this machine; the log has it.
        body["reason"] = type(slot.failure).__name__
    if state == "ready":
        return JSONResponse(body)
    return JSONResponse(body, status_code=503, headers={"Retry-After": str(RETRY_AFTER_S)})


@router.get("/version")
async def get_version() -> dict[str, str]:
    try:
        return {"version": version("arrowhead")}
    except PackageNotFoundError:
        return {"version": "unknown"}
