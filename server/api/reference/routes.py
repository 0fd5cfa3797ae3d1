"""Serve ``/openapi.json`` and ``/docs``.

The page and its script contain no data of the server and need no key. The document needs a key as other routes do; the
page asks for the key and stores it in memory only.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from server.api.reference.document import build_document
from server.api.reference.rules import running_of
from server.wiring.services import Services

router = APIRouter()
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


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    services: Services = request.app.state.services
    return JSONResponse(build_document(running_of(services)), headers={"Cache-Control": "no-cache"})


@router.get("/docs")
async def docs() -> Response:
    return _file("page.html")


@router.get("/docs/{name}")
async def docs_file(name: str) -> Response:
    if name not in _KINDS:
        raise HTTPException(404)
    return _file(name)


def _file(name: str) -> Response:
    content = (files("server.api.reference") / "static" / name).read_bytes()
    return Response(content, media_type=_KINDS[name], headers=HEADERS)
