"""Serve ``GET /v1/traces/{id}``: the full record of an answer, for the key that requested it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from server.errors import TraceNotFound
from server.services import Services

router = APIRouter()


@router.get("/v1/traces/{trace_id}")
async def get_trace(request: Request, trace_id: str) -> Response:
    services: Services = request.app.state.services
    text = services.traces.get(trace_id, request.state.owner)
    if text is None:
        raise TraceNotFound("there is no such trace, or it is no longer kept")
    return Response(text, media_type="application/json", headers={"Cache-Control": "no-store"})
