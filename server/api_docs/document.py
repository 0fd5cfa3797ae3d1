"""Builds the OpenAPI 3.1 document from the list of operations. Pure; knows nothing of the running server."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from server.api_docs.operations import METRICS, OPERATIONS, PAGE, Operation
from server.api_docs.replies import ref, reply_schemas
from server.api_docs.rules import add_rules

Schema = dict[str, Any]
_PLACE: Final = re.compile(r"\{(\w+)\}")
_ABOUT: Final = (
    "Biomedical questions, answered with sources. The paths below /v1 are OpenAI's; what is ours stands in the member "
    "`arrowhead` of requests and answers. Unknown fields are refused by name."
)
_STREAM: Final = (
    "Server-sent events: each `data:` line is a chunk as JSON, comments keep the connection alive, `data: [DONE]` ends "
    "it. An error after the first byte is a chunk with the member `error`."
)
_MEANING: Final = {
    400: "the client went away, or the request cannot be read",
    404: "there is none of this name",
    409: "it exists already, or is being changed",
    413: "the body is longer than server.max_body_bytes, or a document is",
    422: "a field is wrong; `param` names it",
    429: "the server is full, see Retry-After",
    500: "the server failed",
    502: "NCBI failed",
    503: "the model is loading, has failed, or the server stops",
    504: "NCBI gave no answer in time",
    507: "the disk is full",
}


def build_document(*, version: str, needs_key: bool) -> Schema:
    """``needs_key``: the server has keys, so a request without one is refused."""
    paths: dict[str, dict[str, Schema]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.verb] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Arrowhead", "version": version, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}] if needs_key else [{}],
        "tags": [{"name": name} for name in dict.fromkeys(operation.tag for operation in OPERATIONS)],
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "headers": {
                "RequestId": {"schema": {"type": "string"}, "description": "of the log's lines"},
                "RetryAfter": {"schema": {"type": "integer"}, "description": "seconds"},
            },
        },
    }


def _schemas() -> dict[str, Schema]:
    bodies = dict.fromkeys(o.body for o in OPERATIONS if isinstance(o.body, type) and issubclass(o.body, BaseModel))
    _, found = models_json_schema(
        [(body, "validation") for body in bodies], ref_template="#/components/schemas/{model}"
    )
    schemas: dict[str, Schema] = found["$defs"]
    add_rules(schemas)
    return schemas | reply_schemas() | {"OpenApi": {"type": "object"}}


def _operation(operation: Operation) -> Schema:
    name = re.sub(r"\W+", "_", f"{operation.verb}_{operation.path}").strip("_").lower()
    places = [_parameter(place, "path", {"type": "string"}) for place in _PLACE.findall(operation.path)]
    asked = [_parameter(name, "query", dict(schema)) for name, schema in operation.query.items()]
    described: Schema = {
        "operationId": name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "responses": _responses(operation),
    }
    if places or asked:
        described["parameters"] = places + asked
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": _body(operation)}
    if operation.is_open:
        described["security"] = []
    return described


def _parameter(name: str, where: str, schema: Schema) -> Schema:
    return {"name": name, "in": where, "required": where == "path", "schema": schema}


def _body(operation: Operation) -> Schema:
    if isinstance(operation.body, type):
        return {"application/json": {"schema": ref(operation.body.__name__)}}
    return {"application/octet-stream": {"schema": {"type": "string", "format": "binary", "minLength": 1}}}


def _responses(operation: Operation) -> Schema:
    responses: Schema = {}
    for status, kind in operation.replies.items():
        content = _content(kind)
        if operation.streams:
            content["text/event-stream"] = {"schema": {"type": "string", "description": _STREAM}}
        responses[str(status)] = {"description": _said(status), "headers": _headers(status), "content": content}
    statuses = [*operation.errors, *(() if operation.is_open else (401, 403))]
    for status in sorted(set(statuses)):
        if str(status) not in responses:
            responses[str(status)] = _error(_MEANING.get(status, "refused"), status)
    responses["default"] = _error("any other error", 0)
    return responses


def _said(status: int) -> str:
    return {200: "done", 201: "made", 202: "accepted, goes on"}.get(status, _MEANING.get(status, "refused"))


def _content(kind: str) -> Schema:
    text = {"schema": {"type": "string"}}
    kinds = {
        METRICS: ("text/plain", "application/openmetrics-text"),
        PAGE: ("text/html", "text/javascript", "text/css"),
    }
    return dict.fromkeys(kinds[kind], text) if kind in kinds else {"application/json": {"schema": ref(kind)}}


def _error(description: str, status: int) -> Schema:
    content = {"application/json": {"schema": ref("Error")}}
    return {"description": description, "headers": _headers(status), "content": content}


def _headers(status: int) -> Schema:
    headers: Schema = {"x-request-id": {"$ref": "#/components/headers/RequestId"}}
    return headers | ({"Retry-After": {"$ref": "#/components/headers/RetryAfter"}} if status in {429, 503} else {})
