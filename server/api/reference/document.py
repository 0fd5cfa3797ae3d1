"""Serve ``/openapi.json``, FastAPI's document completed with what it cannot know, and ``/docs``, Swagger UI over it.

FastAPI cannot know keys, errors and the bodies that handlers read themselves. The page and its script contain no data
of the server and need no key. The document needs a key as other routes do; the page asks for the key and stores it in
memory only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from copy import deepcopy
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from server.api.declarations import Reads, Responses
from server.error_mapping import ANTHROPIC_KINDS, ANTHROPIC_PATHS, KINDS, error_codes
from server.middleware import OPEN_PATHS
from server.wiring.services import Services

Schema = dict[str, Any]
ABOUT: Final = (
    "Biomedical questions, answered with sources. The paths below /v1 are OpenAI's; what is ours stands in the member "
    "`arrowhead` of requests and answers. Unknown fields are refused by name. Each reply has its x-request-id: the "
    "client's own where that is 16 to 64 hexadecimal digits, dashes between them allowed. A path takes the methods "
    "that are named here and gets 405 for others. The plain model on vLLM takes the fields of vLLM's own "
    "server as well."
)
TAGS: Final = tuple(
    {"name": name}
    for name in ("Answers", "Retrieval", "Namespaces", "Files", "Reviews", "MCP", "Server", "Administration", "Page")
)
_OPEN: Final = OPEN_PATHS | {"/docs/{name}", "/web/{name}"}
_PHRASES: Final = {str(one.value): one.phrase for one in HTTPStatus}
_TEXT: Final[Schema] = {"type": "string"}


def operation_id(route: APIRoute) -> str:
    """Return the operationId: the verb and the path's words."""
    return re.sub(r"\W+", "_", f"{min(route.methods)}_{route.path_format}").strip("_").lower()


def completed(generate: Callable[[], Schema], routes: Iterable[BaseRoute], *, needs_key: bool) -> Schema:
    """Return the document that FastAPI generates with what the routes, as it reads them, do not tell."""
    for route in routes:
        if isinstance(route, APIRoute):
            route.unique_id = operation_id(route)
            route.responses.setdefault("default", {})
    document = deepcopy(generate())
    document["security"] = [{"bearer": []}] if needs_key else [{}]
    components = document["components"]
    components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    components["schemas"] |= _body_schemas(routes) | _error_schemas()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _add_errors(operation, path)
    return document


def _body_schemas(routes: Iterable[BaseRoute]) -> dict[str, Schema]:
    """Return the schemas of the bodies that handlers read themselves."""
    extras = [route.openapi_extra for route in routes if isinstance(route, APIRoute)]
    found = dict.fromkeys(model for extra in extras if isinstance(extra, Reads) for model in extra.models)
    _, schema = models_json_schema(
        [(model, "validation") for model in found], ref_template="#/components/schemas/{model}"
    )
    schemas: dict[str, Schema] = schema["$defs"]
    return schemas


def _error_schemas() -> dict[str, Schema]:
    codes, types = sorted(error_codes()), sorted(KINDS)
    param = {"type": ["string", "null"], "description": "the field that is at fault"}
    members: Schema = {"message": _TEXT, "type": {"enum": types}, "param": param, "code": {"enum": codes}}
    error: Schema = {"type": "object", "properties": members, "required": list(members)}
    own = {"type": "object", "properties": {"error": error}, "required": ["error"]}
    kinds = {"type": {"enum": sorted(ANTHROPIC_KINDS)}}
    anthropic = {"type": {"const": "error"}, "error": error | {"properties": members | kinds}}
    return {"Error": own, "AnthropicError": {"type": "object", "properties": anthropic, "required": ["type", "error"]}}


def _add_errors(operation: Schema, path: str) -> None:
    """Add the errors that every route, every route with a key and every route with a body can give."""
    responses, is_open = operation["responses"], path in _OPEN
    schema = {"$ref": f"#/components/schemas/{'AnthropicError' if path in ANTHROPIC_PATHS else 'Error'}"}
    if is_open:
        operation["security"] = []
    for status in ("403", "431", *(() if is_open else ("401", "429", "503"))):
        responses.setdefault(status, {})
    if "requestBody" in operation:
        responses.setdefault("408", {})
    for status, response in responses.items():
        if status == "default" or int(status) >= 400:
            meaning = "any other error" if status == "default" else _PHRASES.get(status, "error")
            response.setdefault("description", meaning)
            media = response.setdefault("content", {}).setdefault("application/json", {})
            present = media.get("schema")
            media["schema"] = {"anyOf": [present, schema]} if present else schema


router = APIRouter(tags=["Server"])
_KINDS: Final = {
    "page.html": "text/html",
    "page.js": "text/javascript",
    "page.svg": "image/svg+xml",
    "swagger-ui.js": "text/javascript",
    "swagger-ui.css": "text/css",
}
# No resources of other origins, no inline scripts, no framing by other pages; Swagger UI's icons stand in its styles.
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

_PAGE: Final[Responses] = {200: {"content": {kind: {"schema": {"type": "string"}} for kind in _KINDS.values()}}}


@router.get("/openapi.json", summary="Return this document", responses={200: {"model": dict[str, Any]}})
async def openapi(request: Request) -> Response:
    # The first document takes 0.15 s, during which the event loop would send no tokens.
    services: Services = request.app.state.services
    document = await services.compute(request.state.owner, request.app.openapi)
    return JSONResponse(document, headers={"Cache-Control": "no-cache"})


@router.get("/docs", summary="Return the page that shows this document", response_class=Response, responses=_PAGE)
async def docs() -> Response:
    return _file("page.html")


@router.get(
    "/docs/{name}",
    summary="Return the page's scripts, styles and icon; all else needs a key",
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
