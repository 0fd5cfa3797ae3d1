"""Serve ``/openapi.json`` and ``/docs``.

The page and its script contain no data of the server and need no key. The document needs a key as other routes do; the
page asks for the key and stores it in memory only.
"""

from __future__ import annotations

import asyncio
from importlib.resources import files
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from server.api.declarations import Responses
from server.api.reference.document import running_of

router = APIRouter(tags=["Server"])
_KINDS: Final = {
    "page.html": "text/html",
    "page.js": "text/javascript",
    "page.css": "text/css",
    "page.svg": "image/svg+xml",
}
# No resources of other origins, no inline scripts, no framing by other pages.
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


_PAGE: Final[Responses] = {200: {"content": {kind: {"schema": {"type": "string"}} for kind in _KINDS.values()}}}


@router.get("/openapi.json", summary="Return this document", responses={200: {"model": dict[str, Any]}})
async def openapi(request: Request) -> Response:
    # The first document takes 0.15 s, during which the event loop would send no tokens.
    document = await asyncio.to_thread(request.app.describe, running_of(request.app.state.services))
    return JSONResponse(document, headers={"Cache-Control": "no-cache"})


@router.get("/docs", summary="Return the page that shows this document", response_class=Response, responses=_PAGE)
async def docs() -> Response:
    return _file("page.html")


@router.get(
    "/docs/{name}",
    summary="Return the page's script, style or icon: page.js, page.css, page.svg; all else needs a key",
    response_class=Response,
    responses=_PAGE,
)
async def docs_file(name: str) -> Response:
    if name not in _KINDS:
        raise HTTPException(404)
    return _file(name)


def _file(name: str) -> Response:
    content = (files("server.api.reference") / "static" / name).read_bytes()
    return Response(content, media_type=_KINDS[name], headers=HEADERS)
