"""Serve ``GET /metrics`` for Prometheus.

The route needs a key as other routes do: Prometheus sends one as a bearer token.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from server.services import Services

router = APIRouter()


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Return the metrics in OpenMetrics where the client accepts it, else in Prometheus' text format."""
    services: Services = request.app.state.services
    body, content_type = services.observing.metrics.expose(request.headers.get("accept", ""))
    return Response(body, headers={"Content-Type": content_type, "Cache-Control": "no-store"})
