"""Serve ``/health`` (liveness), ``/ready`` (readiness) and ``/version``."""

from __future__ import annotations

import json
import platform
from typing import Annotated, Any, Final, Literal, get_args

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.types import Receive, Scope, Send

from server.api.answers.kept import KeptReplies, KeptReply
from server.api.declarations import SSE_ENDS, Reply, errors, parameter
from server.egress.policy import NOTHING_LEFT, EgressPolicy
from server.engine.lifecycle import State
from server.error_mapping import RETRY_AFTER_S
from server.errors import TRACE_UNKNOWN, RequestError
from server.evidence.reviews import differences
from server.exports.formats import FORMATS, check_export, export
from server.observability.metrics import engine_kind
from server.types import id_of_digest
from server.version import commit, installed_version
from server.wiring.services import Services

router = APIRouter()

_TEXT: Final = {"schema": {"type": "string"}}
_NOT_READY: Final = [*(state for state in get_args(State) if state != "ready"), "draining"]


class Health(Reply):
    """Say that the process lives."""

    status: Literal["ok"]


class _Readiness(Reply):
    model: str
    seconds: float
    egress: str
    egress_profile: str
    egress_allows: list[str]
    egress_service: str | None = Field(default=None, description="host of the service that sends this server's calls")
    left: str = Field(description="what left this machine for this key since the start, in words")
    in_flight: int
    waiting: int
    since: int = Field(description="Unix time at which the state began")
    restarts: int
    vectors: str | None = Field(default=None, description="where vectors are searched, where a card does; in words")
    reason: str | None = Field(default=None, description="kind of the failure, absent where there is none")
    cause: str | None = Field(default=None, description="what the failure says, without the folders of this machine")


class Ready(_Readiness):
    """Describe a server that can answer."""

    status: Literal["ready"]


class NotReady(_Readiness):
    """Describe a server that cannot answer."""

    status: Annotated[str, Field(json_schema_extra={"enum": list(_NOT_READY)})]


class Version(Reply):
    """Say what runs."""

    version: str
    python: str
    engine: str
    model: str
    commit: str | None


class Trace(Reply):
    """Record an answer in full."""

    id: str
    object: str
    model: str
    created: int
    choices: list[dict[str, Any]]


class Differences(Reply):
    """Tell in what two answers differ.

    ``differs`` has ``gone`` and ``new`` lines for each aspect that does: calls, evidence, answer, outcome. ``articles``
    is null unless both are reviews of literature.
    """

    object: Literal["arrowhead.differences"]
    since: str
    trace_id: str
    equal: bool
    differs: dict[str, dict[str, list[str]]]
    articles: dict[str, Any] | None


class Stopped(Reply):
    """Say that a kept answer is stopped and forgotten."""

    id: str
    object: Literal["answer.deleted"]
    deleted: Literal[True]


@router.get(
    "/health", tags=["Server"], summary="Return 200 while the process lives", responses={200: {"model": Health}}
)
async def health() -> Response:
    return JSONResponse({"status": "ok"})


@router.get(
    "/ready",
    tags=["Server"],
    summary="Return 200 while the server can answer, else 503 with the reason",
    responses={200: {"model": Ready}, 503: {"model": NotReady}},
)
async def ready(request: Request) -> Response:
    """Return the server's state: 503 with the reason while the model loads, failed or restarts, and during shutdown.

    ``since`` is the Unix time at which that state began. ``egress`` is the key's own mode, and ``left`` describes what
    was sent to other machines for it since the start; ``egress_service`` is the host that sends it, absent where this
    server does. ``vectors`` says how many of them the card had no room for; absent where the processor searches all.
    """
    services: Services = request.app.state.services
    lifecycle, key = services.lifecycle, id_of_digest(request.state.owner)
    policy = services.egress.policy if services.egress else EgressPolicy.of(services.settings.egress)
    state = "draining" if services.draining else lifecycle.state
    body: dict[str, Any] = {
        "status": state,
        "model": lifecycle.card.name,
        "seconds": round(lifecycle.seconds, 1),
        "egress": policy.ceiling(key),
        "egress_profile": policy.profile,
        "egress_allows": list(policy.allowed),
        "left": services.egress.left_by(key) if services.egress else NOTHING_LEFT,
        "in_flight": services.in_flight,
        "waiting": services.admission.waiting,
        "since": services.drained_at or lifecycle.since,
        "restarts": lifecycle.restarts.total,
    }
    if service := services.settings.egress.service_host:
        body["egress_service"] = service
    if (use := services.card_use) is not None:
        body["vectors"] = str(use)
    if lifecycle.reason:
        body["reason"] = lifecycle.reason
    if lifecycle.cause:
        body["cause"] = lifecycle.cause
    if state == "ready":
        return JSONResponse(body)
    return JSONResponse(body, status_code=503, headers={"Retry-After": str(RETRY_AFTER_S)})


@router.get(
    "/version",
    tags=["Server"],
    summary="Return the versions of server, Python and engine",
    responses={200: {"model": Version}},
)
async def get_version(request: Request) -> Response:
    """Return the versions; ``engine`` is "" while there is none, ``commit`` None where it is not known."""
    services: Services = request.app.state.services
    return JSONResponse(
        {
            "version": installed_version(),
            "commit": commit(),
            "python": platform.python_version(),
            "engine": engine_kind(services.lifecycle),
            "model": services.lifecycle.card.name,
        }
    )


@router.get(
    "/metrics",
    tags=["Server"],
    summary="Return the metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": _TEXT, "application/openmetrics-text": _TEXT}}},
)
async def metrics(request: Request) -> Response:
    """Return the metrics in OpenMetrics where the client accepts it, else in Prometheus' text format."""
    services: Services = request.app.state.services
    body, content_type = services.observability.metrics.expose(request.headers.get("accept", ""))
    return Response(body, headers={"Content-Type": content_type, "Cache-Control": "no-store"})


@router.get(
    "/v1/traces/{trace_id}",
    tags=["Answers"],
    summary="Return the full record of an answer to the key that asked",
    responses={200: {"model": Trace}, **errors(404)},
)
async def get_trace(request: Request, trace_id: str) -> Response:
    text = await _trace(request, trace_id)
    return Response(text, media_type="application/json", headers={"Cache-Control": "no-store"})


@router.get(
    "/v1/traces/{trace_id}/export",
    tags=["Answers"],
    summary="Return the references, the evidence or the report of an answer as a file",
    response_class=Response,
    responses={200: {"content": {"*/*": _TEXT}}, **errors(400, 404, 429)},
    openapi_extra={
        "parameters": [{**parameter("format", "query", {"type": "string", "enum": list(FORMATS)}), "required": True}]
    },
)
async def export_trace(request: Request, trace_id: str) -> Response:
    form = check_export(request.query_params.get("format"))
    text = await _trace(request, trace_id)
    services: Services = request.app.state.services
    written = await services.compute(request.state.owner, lambda: export(text, form))
    headers = {"Cache-Control": "no-store", "Content-Disposition": f'attachment; filename="{written.name}"'}
    return Response(written.data, media_type=written.media_type, headers=headers)


@router.get(
    "/v1/traces/{trace_id}/differences",
    tags=["Answers"],
    summary="Tell in what an answer differs from an earlier one, and which articles of a review are new, gone, changed",
    openapi_extra={"parameters": [{**parameter("since", "query", {"type": "string"}), "required": True}]},
    responses={200: {"model": Differences}, **errors(400, 404, 429)},
)
async def trace_differences(request: Request, trace_id: str) -> Response:
    since = request.query_params.get("since")
    if not since:
        raise RequestError("since: the id of the earlier answer", param="since")
    before, after = await _trace(request, since), await _trace(request, trace_id)
    services: Services = request.app.state.services
    found = await services.compute(
        request.state.owner, lambda: differences.trace_differences(json.loads(before), json.loads(after))
    )
    head = {"object": "arrowhead.differences", "since": since, "trace_id": trace_id}
    return JSONResponse(head | found, headers={"Cache-Control": "no-store"})


class _FollowedReply(Response):
    """Send a kept reply from its beginning, while it comes."""

    def __init__(self, kept: KeptReply) -> None:
        super().__init__()
        self._kept = kept

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._kept.follow(receive, send)


@router.get(
    "/v1/answers/{answer_id}",
    tags=["Answers"],
    summary="Return a chat's reply again, from its beginning, to the key that asked with X-Keep-Answer",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": {"description": SSE_ENDS}}}}, **errors(404)},
)
async def get_answer(request: Request, answer_id: str) -> Response:
    kept: KeptReplies = request.app.state.kept
    return _FollowedReply(kept.find(request.state.owner, answer_id))


@router.delete(
    "/v1/answers/{answer_id}",
    tags=["Answers"],
    summary="Stop an answer that was asked for with X-Keep-Answer, and forget its reply",
    responses={200: {"model": Stopped}, **errors(404)},
)
async def stop_answer(request: Request, answer_id: str) -> Response:
    kept: KeptReplies = request.app.state.kept
    kept.stop(request.state.owner, answer_id)
    return JSONResponse({"id": answer_id, "object": "answer.deleted", "deleted": True})


async def _trace(request: Request, trace_id: str) -> str:
    services: Services = request.app.state.services
    text = await services.traces.get(trace_id, request.state.owner)
    if text is None:
        is_off = services.settings.traces.max_traces == 0
        off = "this server keeps no traces, as traces.max_traces is 0"
        raise RequestError(off if is_off else "there is no such trace, or it is no longer kept", TRACE_UNKNOWN)
    return text
