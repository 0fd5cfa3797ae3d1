"""Serve the page (``/``, ``/web/…``) and what it alone needs: rendered Markdown and what its key may do.

The page's files contain no data of the server and need no key, since a browser cannot send one for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field
from starlette.exceptions import HTTPException

from retrieval.corpus.search.ranking import MAX_K
from server.api.declarations import Reads, Reply, Responses, errors
from server.api.http_io import Body, parse_body, read_json
from server.api.retrieval.namespaces import changes_allowed
from server.egress.policy import EgressPolicy
from server.errors import InvalidRequest
from server.web.files import INDEX, page_file
from server.web.markdown import MarkdownRenderer
from server.web.status import status_of
from server.wiring.services import Services

router = APIRouter(tags=["Page"])
# Rendering 100,000 unfavourable characters takes about 2 s of a thread.
MAX_RENDERED: Final = 100_000
MAX_TEXTS: Final = 64
_FILE: Final[Responses] = {200: {"content": {"*/*": {"schema": {"type": "string"}}}}}


class RenderBody(Body):
    """Name the Markdown texts to render, at most 100,000 characters together."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"texts": ["**bold**"]}]})
    texts: Annotated[list[str], Field(min_length=1, max_length=MAX_TEXTS)]


class Rendered(Reply):
    """Hold one text as HTML."""

    html: str


class RenderedList(Reply):
    """List the texts as HTML, in the order of the request."""

    object: Literal["list"]
    data: list[Rendered]


class Permissions(Reply):
    """Say what the key of this request may do."""

    object: Literal["permissions"]
    key_id: str = Field(description="of the key, as in logs; empty without keys")
    needs_key: bool
    methods: list[str]
    egress: str
    may_change_namespaces: bool
    max_upload_bytes: int
    max_k: int
    max_rendered: int


class AuditState(Reply):
    """Tell whether what leaves is logged; ``last`` is the Unix time of the last line, None where there is none."""

    recording: bool
    bytes: int
    last: int | None


class Status(Reply):
    """Describe what ``/ready`` does not tell: the audit log and the records of the built-in gateway by database."""

    object: Literal["status"]
    audit: AuditState
    gateway: dict[str, int]


@router.get("/", summary="Return the page for people", response_class=Response, responses=_FILE)
async def index(request: Request) -> Response:
    return _reply(request, INDEX)


@router.get(
    "/web/{name}", summary="Return a script, style, text or font of the page", response_class=Response, responses=_FILE
)
async def web_file(request: Request, name: str) -> Response:
    return _reply(request, name)


@router.post(
    "/v1/render",
    summary="Turn Markdown into HTML that is safe to show",
    openapi_extra=Reads(RenderBody),
    responses={200: {"model": RenderedList}, **errors(413, 422, 429)},
)
async def render(request: Request) -> Response:
    services: Services = request.app.state.services
    body = parse_body(RenderBody, await read_json(request, services.settings.server.max_body_bytes))
    if sum(map(len, body.texts)) > MAX_RENDERED:
        raise InvalidRequest(f"texts: at most {MAX_RENDERED} characters together", param="texts")
    async with services.admitted(request.state.owner):
        data = await asyncio.to_thread(_rendered, body.texts)
    return JSONResponse({"object": "list", "data": data}, headers={"Cache-Control": "no-store"})


@router.get("/v1/permissions", summary="Say what this key may do", responses={200: {"model": Permissions}})
async def permissions(request: Request) -> Response:
    """Return the scopes of the key, as far as a page shows or hides something by them."""
    services: Services = request.app.state.services
    principal = request.state.principal
    policy = services.egress.policy if services.egress else EgressPolicy.of(services.settings.egress)
    told: dict[str, Any] = {
        "object": "permissions",
        "key_id": principal.key_id,
        "needs_key": services.keyring.requires_key,
        "methods": [served.name for served in services.models(principal)],
        "egress": policy.ceiling(principal.key_id),
        "may_change_namespaces": changes_allowed(services) and principal.may_change,
        "max_upload_bytes": services.settings.retrieval.max_upload_bytes,
        "max_k": min(services.settings.retrieval.max_k, MAX_K),
        "max_rendered": MAX_RENDERED,
    }
    return JSONResponse(told, headers={"Cache-Control": "no-store"})


@router.get("/v1/status", summary="Describe audit log and gateway", responses={200: {"model": Status}, **errors(429)})
async def status(request: Request) -> Response:
    """Return the state of the audit log, and how many records answer look-ups on this machine."""
    services: Services = request.app.state.services
    async with services.admitted(request.state.owner):
        told = await asyncio.to_thread(status_of, services.settings)
    return JSONResponse({"object": "status", **told}, headers={"Cache-Control": "no-store"})


@cache
def _renderer() -> MarkdownRenderer:
    return MarkdownRenderer()


def _rendered(texts: Sequence[str]) -> list[dict[str, str]]:
    return [{"html": _renderer().render(text)} for text in texts]


def _reply(request: Request, name: str) -> Response:
    try:
        file = page_file(name)
    except KeyError:
        raise HTTPException(404) from None
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=file.headers())
    return Response(file.content, media_type=file.media_type, headers=file.headers())
