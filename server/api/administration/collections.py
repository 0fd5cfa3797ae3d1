"""Serve ``/v1/admin/collections``: literature, tables and graphs that a site can add, and the job that adds one."""

from __future__ import annotations

from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from server.api.declarations import CHANGE_ERRORS, Reads, Reply, errors, parameter
from server.api.http_io import read_body
from server.api.retrieval.documents import JOB, WAIT, submitted
from server.api.retrieval.namespaces import require_changes
from server.api.retrieval.schemas import NoBody
from server.auth.authentication import require_administration
from server.egress.policy import EgressContext
from server.errors import COLLECTION_FILES_MISSING, COLLECTION_UNKNOWN, RequestError
from server.evidence.collections import measured_pace
from server.evidence.encoders import load_graph_encoder
from server.jobs.queue import OrderedWork, WorkOrder
from server.observability.observer import request_id
from server.types import id_of_digest
from server.wiring.collection_imports import KIND
from server.wiring.services import Services

router = APIRouter(tags=["Administration"])
_SHOWN: Final = ("name", "what", "size", "licence", "address", "commands", "resume", "into")


class ListedCollection(Reply):
    """Describe a collection and what it costs; ``seconds`` are those of this machine, null where they are not known.

    ``obstacle``: why the server cannot add it now: "files" are to be put into ``folder``, the mode is "off" or calls go
    by the egress "service"; "" for none. ``ready`` are the files that lie in the folder.
    """

    name: str
    licence: str
    into: Literal["namespace", "gateway", "graph"]
    folder: str
    ready: list[str]
    obstacle: Literal["", "off", "service", "files"]
    seconds: float | None


class CollectionList(Reply):
    """List the collections."""

    object: Literal["list"]
    data: list[ListedCollection]


@router.get(
    "/v1/admin/collections",
    summary="List literature, tables and graphs that can be added",
    openapi_extra={"parameters": [parameter("time", "query", {"type": "boolean"})]},
    responses={200: {"model": CollectionList}, **errors(422, 429)},
)
async def list_collections(request: Request) -> Response:
    """List what can be added; with ``time``, this machine is measured for some seconds first."""
    services: Services = request.app.state.services
    require_administration(request.state.principal)
    time = request.query_params.get("time", "false")
    if time not in ("true", "false"):
        raise RequestError("time: true or false", param="time")
    context, imports = _context(request), services.collections

    def work() -> list[dict[str, Any]]:
        pace = measured_pace(load_graph_encoder(services.settings)) if time == "true" else None
        return [
            {name: getattr(one, name) for name in _SHOWN}
            | {"folder": str(imports.folder(one)), "ready": [path.name for path in imports.files(one)]}
            | {"obstacle": imports.obstacle(one, context.mode if context else "off")}
            | {"seconds": pace.seconds(one) or None if pace else None}
            for one in imports.listed.values()
        ]

    data = await services.compute(request.state.owner, work)
    return JSONResponse({"object": "list", "data": data}, headers={"Cache-Control": "no-store"})


@router.post(
    "/v1/admin/collections/{name}",
    summary="Add a collection from its folder on the server, or from NCBI",
    openapi_extra=Reads(NoBody, [WAIT]),
    responses=JOB | CHANGE_ERRORS,
)
async def add_collection(request: Request, name: str) -> Response:
    """Add a collection; the same again goes on where the job before was stopped."""
    services: Services = request.app.state.services
    require_administration(request.state.principal)
    require_changes(request)
    await read_body(request, NoBody)
    one, context = services.collections.listed.get(name), _context(request)
    if one is None:
        raise RequestError("there is no such collection in the list", COLLECTION_UNKNOWN, param="name")

    def check() -> None:
        if one.into == "namespace" and services.retrieval.namespaces.stores.exists(name):
            services.access.require(request.state.principal, name, change=True)
        if services.collections.obstacle(one, context.mode if context else "off"):
            message = f"its files, of {one.address}, are not in {services.collections.folder(one)}"
            raise RequestError(message, COLLECTION_FILES_MISSING)

    await services.retrieval.run(check)
    sender = {"key_id": context.key_id, "mode": context.mode} if context else {}
    return await submitted(request, (KIND, name), OrderedWork(WorkOrder(sender), services.changes.perform))


def _context(request: Request) -> EgressContext | None:
    services: Services = request.app.state.services
    egress = services.egress
    return egress.admit(request_id.get(), id_of_digest(request.state.owner), None) if egress else None
