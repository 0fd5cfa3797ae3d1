"""Serve ``/health`` (liveness), ``/ready`` (readiness) and ``/version``."""

from __future__ import annotations

import platform
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from server.egress.policy import NOTHING_LEFT, EgressPolicy
from server.error_mapping import RETRY_AFTER_S
from server.errors import TraceNotFound
from server.observability.metrics import engine_kind
from server.version import commit, installed_version
from server.wiring.services import Services

router = APIRouter()


@router.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}


@router.get("/ready")
async def ready(request: Request) -> Response:
    """Return the server's state: 503 with the reason while the model loads, failed or restarts, and during shutdown.

    ``since`` is the Unix time at which that state began. ``left`` describes what was sent to other machines since the
    start.
    """
    services: Services = request.app.state.services
    lifecycle, policy = services.lifecycle, EgressPolicy.of(services.settings.egress)
    state = "draining" if services.draining else lifecycle.state
    body: dict[str, Any] = {
        "status": state,
        "model": lifecycle.card.name,
        "seconds": round(lifecycle.seconds, 1),
        "egress": policy.mode,
        "egress_profile": policy.profile,
        "egress_allows": list(policy.allowed),
        "left": services.egress.left if services.egress else NOTHING_LEFT,
        "in_flight": services.in_flight,
        "waiting": services.admission.waiting,
        "since": services.drained_at or lifecycle.since,
        "restarts": lifecycle.restarts.total,
    }
    if lifecycle.reason:
        body["reason"] = lifecycle.reason
    if state == "ready":
        return JSONResponse(body)
    return JSONResponse(body, status_code=503, headers={"Retry-After": str(RETRY_AFTER_S)})


@router.get("/version")
async def get_version(request: Request) -> dict[str, str | None]:
    """Return the versions; ``engine`` is "" while there is none, ``commit`` None where it is not known."""
    services: Services = request.app.state.services
    return {
        "version": installed_version(),
        "commit": commit(),
        "python": platform.python_version(),
        "engine": engine_kind(services.lifecycle),
        "model": services.lifecycle.card.name,
    }


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Return the metrics in OpenMetrics where the client accepts it, else in Prometheus' text format."""
    services: Services = request.app.state.services
    body, content_type = services.observing.metrics.expose(request.headers.get("accept", ""))
    return Response(body, headers={"Content-Type": content_type, "Cache-Control": "no-store"})


@router.get("/v1/traces/{trace_id}")
async def get_trace(request: Request, trace_id: str) -> Response:
    services: Services = request.app.state.services
    text = await services.traces.get(trace_id, request.state.owner)
    if text is None:
        raise TraceNotFound("there is no such trace, or it is no longer kept")
    return Response(text, media_type="application/json", headers={"Cache-Control": "no-store"})
