"""Answer the requests of servers to the egress service: one route for calls, and its state.

Every route but ``/health`` asks for the shared key where one is set. A call that is refused here, by key or by number,
was not sent to NCBI. Knows nothing of sockets, and leaves to the router what may leave.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from retrieval.errors import NcbiError, NcbiRefusedByEgress, NcbiThrottled, NcbiTimeout
from retrieval.ncbi.calls.table import DROPPED
from retrieval.ncbi.client.service import CALLS_PATH, encode_error, encode_reply
from retrieval.types import Endpoint, NcbiCall, RawReply
from server.egress.policy import EgressContext
from server.observability.metrics import Metrics
from server.wiring.ncbi import Ncbi

log = logging.getLogger(__name__)
_MAX_BODY: Final = 64 * 1024
_BODY_TIMEOUT_S: Final = 10.0
_MAX_PARAMS: Final = 40
_PARAM: Final = re.compile(r"[A-Za-z_]{1,40}")
_NO_CLIENT: Final = 499
REFUSALS: Final = ("key", "busy", "body")


class CallRequest(BaseModel):
    """Hold one call and what the audit log needs of its caller."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    endpoint: Endpoint
    params: Annotated[dict[str, str], Field(max_length=_MAX_PARAMS)]
    request_id: str = Field(default="", pattern=r"^[!-~]{0,200}$")
    key_id: str = Field(default="", pattern=r"^([0-9a-f]{8})?$")
    cached_only: bool = False

    @field_validator("params")
    @classmethod
    def _are_a_calls(cls, params: dict[str, str]) -> dict[str, str]:
        for name in params:
            if not _PARAM.fullmatch(name) or name.lower() in DROPPED or name.upper() == "CMD":
                raise ValueError("a parameter of this name cannot be sent")
        return params

    @property
    def call(self) -> NcbiCall:
        database = self.params.get("DATABASE" if self.endpoint == "blast_put" else "db", "")
        return NcbiCall(self.endpoint, database, self.params)


@dataclass(slots=True)
class ServiceState:
    """Hold what the routes share; ``key`` is "" where certificates alone decide who may ask."""

    ncbi: Ncbi
    metrics: Metrics
    key: str = field(repr=False)
    max_waiting: int
    in_flight: int = 0
    is_draining: bool = False
    refused: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(REFUSALS, 0)))

    @property
    def kept(self) -> Mapping[str, int]:
        """Return how many calls were kept on this machine, by reason."""
        return {str(reason): number for reason, number in self.ncbi.egress.refusals.items()}

    def is_key(self, sent: str) -> bool:
        """Return whether a request has the shared key, in a time that does not depend on how much of it is right."""
        scheme, _, token = sent.partition(" ")
        if not self.key:
            return True
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self.key.encode())


def create_egress_app(state: ServiceState) -> Starlette:
    """Create the application; its shutdown closes the audit log and the connections to NCBI."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            for closer in reversed(state.ncbi.closers):
                await closer()

    app = Starlette(
        routes=[
            Route("/health", _health),
            Route("/ready", _with_key(_ready)),
            Route("/metrics", _with_key(_metrics)),
            Route(CALLS_PATH, _with_key(_call), methods=["POST"]),
        ],
        lifespan=lifespan,
    )
    app.state.service = state
    return app


Handler = Callable[[Request], Awaitable[Response]]


def _with_key(handler: Handler) -> Handler:
    async def route(request: Request) -> Response:
        state: ServiceState = request.app.state.service
        if not state.is_key(request.headers.get("authorization", "")):
            state.refused["key"] += 1
            log.warning("refused: a request without the shared key, or with another one")
            return _refused(403, "the shared key is missing or wrong")
        return await handler(request)

    return route


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _ready(request: Request) -> Response:
    state: ServiceState = request.app.state.service
    policy = state.ncbi.egress.policy
    body: dict[str, Any] = {
        "status": "draining" if state.is_draining else "ready",
        "egress": policy.mode,
        "egress_profile": policy.profile,
        "egress_allows": list(policy.allowed),
        "in_flight": state.in_flight,
    }
    return JSONResponse(body, status_code=503 if state.is_draining else 200)


async def _metrics(request: Request) -> Response:
    state: ServiceState = request.app.state.service
    body, content_type = state.metrics.expose(request.headers.get("accept", ""))
    return Response(body, media_type=content_type)


async def _call(request: Request) -> Response:
    state: ServiceState = request.app.state.service
    if state.is_draining or state.in_flight >= state.max_waiting:
        state.refused["busy"] += 1
        return _refused(503, "too many calls wait, or the service stops", {"Retry-After": "1"})
    state.in_flight += 1
    try:
        try:
            async with asyncio.timeout(_BODY_TIMEOUT_S):
                asked = CallRequest.model_validate_json(await _body(request))
        except (ValidationError, ClientDisconnect, TimeoutError, _TooLongError):
            state.refused["body"] += 1
            return _refused(400, "the body is no call")
        return await _answered(state, request, asked)
    finally:
        state.in_flight -= 1


async def _answered(state: ServiceState, request: Request, asked: CallRequest) -> Response:
    work = asyncio.create_task(_reply_to(state, asked))
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            return Response(status_code=_NO_CLIENT)
        reply = work.result()
    except NcbiError as error:
        return Response(encode_error(error), status_code=_status_of(error), media_type="application/json")
    finally:
        gone.cancel()
        # A call that no server waits for is not sent, or its reply not read.
        work.cancel()
        await asyncio.wait({work})
    if reply is None:
        return Response(status_code=204)
    return Response(encode_reply(reply), media_type="application/json")


async def _reply_to(state: ServiceState, asked: CallRequest) -> RawReply | None:
    egress = state.ncbi.egress
    context: EgressContext = egress.admit(asked.request_id, asked.key_id, None)
    if asked.cached_only:
        return await egress.find_cached(asked.call, context)
    return await egress.fetch(asked.call, context)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _TooLongError(Exception):
    """Signal a body that is longer than any call."""


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY:
            raise _TooLongError
    return bytes(body)


def _status_of(error: NcbiError) -> int:
    if isinstance(error, NcbiRefusedByEgress):
        return 403
    if isinstance(error, NcbiThrottled):
        return 429
    return 504 if isinstance(error, NcbiTimeout) else 502


def _refused(status: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": {"message": reason}}, status_code=status, headers=headers)
