"""Build the OpenAPI 3.1 document from the list of operations.

Pure; depends on the running server only through ``Running``.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from server.api.reference.operations import METRICS, OPERATIONS, PAGE, Operation, Stream
from server.api.reference.replies import ref, reply_schemas
from server.api.reference.rules import FIELDS, Running, add_examples, add_rules
from server.api.vllm_passthrough.checks import LONGEST, MAX_LOGPROBS, REFUSED

Schema = dict[str, Any]
# Route -> required members of its bodies beside ``model``.
_NEEDED: Final[dict[str, dict[str, Schema]]] = {
    "/v1/chat/completions": {"messages": {"type": "array"}},
    "/v1/completions": {"prompt": {}},
    "/v1/responses": {"input": {}},
    "/v1/messages": {"messages": {"type": "array"}, "max_tokens": {"type": "integer", "minimum": 1}},
    "/v1/messages/count_tokens": {"messages": {"type": "array"}},
}


def layer_body(path: str, model: str, max_choices: int) -> Schema:
    """Return the schema of a request body that is forwarded to the engine's OpenAI layer."""
    members: dict[str, Schema] = {"model": {"const": model}} | _NEEDED[path]
    needed = list(members)
    members["n"] = {"type": ["integer", "null"], "minimum": 1, "maximum": max_choices}
    members |= {name: {"maxItems": most, "maxProperties": most} for name, most in LONGEST.items()}
    members["prompt_logprobs"] = {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_LOGPROBS}
    members["top_logprobs"] = members["prompt_logprobs"]
    unused: Schema = {"enum": [None, False, 0, [], {}]}
    members |= {name: unused | {"description": f"not served: {why}"} for name, why in REFUSED.items()}
    about = (
        f"For {model} itself, without the member arrowhead: the fields of vLLM's own server, in its version here, but "
        "for those that are named as not served. Text alone; shapes of replies within limits of size and depth"
    )
    example = {"model": model} | {name: FIELDS[name] for name in _NEEDED[path]}
    return {"type": "object", "description": about, "properties": members, "required": needed, "examples": [example]}


def layer_replies() -> dict[str, Schema]:
    """Return the schemas of the layer's replies; ``LayerError`` carries its own messages about wrong fields."""
    told: Schema = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
    error: Schema = {"type": "object", "properties": {"error": told}, "required": ["error"]}
    count: Schema = {"type": "object", "properties": {"input_tokens": {"type": "integer"}}}
    return {
        "LayerReply": {"type": "object", "description": "as vLLM's own server replies, without the member arrowhead"},
        "LayerMessage": {"type": "object", "properties": {"type": {"const": "message"}}, "required": ["type"]},
        "LayerCount": count | {"required": ["input_tokens"]},
        "LayerError": error,
    }


_PLACE: Final = re.compile(r"\{(\w+)\}")
_ABOUT: Final = (
    "Biomedical questions, answered with sources. The paths below /v1 are OpenAI's; what is ours stands in the member "
    "`arrowhead` of requests and answers. Unknown fields are refused by name. Each reply has its x-request-id: the "
    "client's own where that is 16 to 64 hexadecimal digits, dashes between them allowed. A path takes the methods "
    "that are named here and gets 405 for others."
)
_LAYER: Final = (
    " Requests for {model} itself, without the member `arrowhead`, are answered by the engine's own OpenAI layer "
    "(vLLM): it takes more fields than are named here and refuses wrong ones with 400."
)
_ENDS: Final = "comments keep the connection alive, `data: [DONE]` ends it. An error after the first byte is an Error."
_STREAMS: Final[dict[Stream, str]] = {
    "chat": f"Server-sent events: each `data:` line is a ChatCompletionChunk, {_ENDS}",
    "text": f"Server-sent events: each `data:` line is a CompletionChunk, {_ENDS}",
    "response": (
        "Server-sent events with names: each is a ResponseEvent, comments keep the connection alive. The last one is "
        "response.completed or response.incomplete, or, after the event error, response.failed."
    ),
}
_MEANING: Final = {
    400: "the engine's own layer refuses a field",
    401: "there is no valid key",
    403: "the key, the server's mode or the page that asks may not do this",
    404: "there is none of this name, or none for this key",
    408: "the body did not come in server.body_timeout_s",
    409: "it exists already, or is being changed",
    413: "the body is longer than server.max_body_bytes, or a document is",
    422: "a field is wrong; `param` names it",
    429: "the server is full, or the key has asked too often or has its share; see Retry-After",
    431: "too many headers, or too long with the address",
    499: "the client went away before its answer began",
    500: "the server failed",
    502: "NCBI failed",
    503: "the model is loading, has died or failed, the server stops, or its keys cannot be read",
    504: "no answer in time: server.request_timeout_s, X-Request-Timeout, or NCBI's",
    507: "the disk is full",
}
_GUARDED: Final = (401, 403, 429, 503)
_TIMEOUT: Final = {
    "type": "number",
    "exclusiveMinimum": 0,
    "description": "seconds; shortens server.request_timeout_s, after which the answer ends with 504",
}
_RATES: Final = {
    f"x-ratelimit-{what}-{unit}": {"$ref": f"#/components/headers/Rate{'Reset' if what == 'reset' else 'Count'}"}
    for unit in ("requests", "tokens")
    for what in ("limit", "remaining", "reset")
}


def build_document(running: Running) -> Schema:
    paths: dict[str, dict[str, Schema]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.verb] = _operation(operation, running)
    about = _ABOUT + (_LAYER.format(model=running.layer_model) if running.layer_model else "")
    return {
        "openapi": "3.1.0",
        "info": {"title": "Arrowhead", "version": running.version, "description": about},
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}] if running.needs_key else [{}],
        "tags": [{"name": name} for name in dict.fromkeys(operation.tag for operation in OPERATIONS)],
        "paths": paths,
        "components": {
            "schemas": _schemas(running),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "headers": _header_components(),
        },
    }


def _header_components() -> dict[str, Schema]:
    text, whole = {"type": "string"}, {"type": "integer"}
    return {
        "RequestId": {"schema": text, "description": "of the log's lines"},
        "RetryAfter": {"schema": whole, "description": "seconds"},
        "ShouldRetry": {"schema": {"const": "false"}, "description": "to OpenAI's SDKs: the same deadline comes again"},
        "RateCount": {"schema": whole, "description": "of a minute; only for keys that have a rate"},
        "RateReset": {"schema": text, "description": "until all is there again, as 250ms, 7s or 1m30s"},
    }


def _schemas(running: Running) -> dict[str, Schema]:
    bodies = dict.fromkeys(o.body for o in OPERATIONS if isinstance(o.body, type) and issubclass(o.body, BaseModel))
    _, found = models_json_schema(
        [(body, "validation") for body in bodies], ref_template="#/components/schemas/{model}"
    )
    schemas: dict[str, Schema] = found["$defs"]
    add_rules(schemas, running)
    add_examples(schemas, running)
    if running.layer_model:
        schemas |= layer_replies()
    return schemas | reply_schemas() | {"OpenApi": {"type": "object"}}


def _operation(operation: Operation, running: Running) -> Schema:
    name = re.sub(r"\W+", "_", f"{operation.verb}_{operation.path}").strip("_").lower()
    parameters = [_parameter(place, "path", {"type": "string"}) for place in _PLACE.findall(operation.path)]
    parameters += [_parameter(name, "query", dict(schema)) for name, schema in operation.query.items()]
    if operation.is_timed:
        parameters.append(_parameter("X-Request-Timeout", "header", _TIMEOUT))
    described: Schema = {
        "operationId": name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "responses": _responses(operation, running),
    }
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": _body(operation, running)}
    if operation.is_open:
        described["security"] = []
    return described


def _parameter(name: str, where: str, schema: Schema) -> Schema:
    return {"name": name, "in": where, "required": where == "path", "schema": schema}


def _is_passed_on(operation: Operation, running: Running) -> bool:
    return bool(operation.layer) and running.is_passed_on(operation.path)


def _body(operation: Operation, running: Running) -> Schema:
    if not isinstance(operation.body, type):
        return {"application/octet-stream": {"schema": {"type": "string", "format": "binary", "minLength": 1}}}
    schema = ref(operation.body.__name__)
    if _is_passed_on(operation, running):
        passed = layer_body(operation.path, running.layer_model, running.max_choices)
        schema = {"anyOf": [schema, passed]} if operation.replies else passed
    return {"application/json": {"schema": schema}}


def _responses(operation: Operation, running: Running) -> Schema:
    is_passed_on = _is_passed_on(operation, running)
    replies = dict(operation.replies) or ({200: operation.layer} if is_passed_on else {})
    responses: Schema = {}
    for status, kind in replies.items():
        content = _content(kind, operation.layer if is_passed_on and kind != operation.layer else "")
        if operation.stream:
            # No type: some clients apply the schema to the whole text, others to each event.
            content["text/event-stream"] = {"schema": {"description": _STREAMS[operation.stream]}}
        headers = _headers(status, is_open=operation.is_open)
        responses[str(status)] = {"description": _said(status), "headers": headers, "content": content}
    statuses = {*operation.errors, *((403,) if operation.is_open else _GUARDED), *((400,) if is_passed_on else ())}
    statuses |= {431, *((408,) if 413 in operation.errors else ())}
    for status in sorted(statuses):
        if str(status) not in responses:
            responses[str(status)] = _error(operation, status, is_passed_on=is_passed_on)
    responses["default"] = _error(operation, 0, is_passed_on=is_passed_on)
    return responses


def _said(status: int) -> str:
    return {200: "done", 201: "made", 202: "accepted, goes on"}.get(status, _MEANING.get(status, "refused"))


def _content(kind: str, other: str = "") -> Schema:
    text = {"schema": {"type": "string"}}
    kinds = {
        METRICS: ("text/plain", "application/openmetrics-text"),
        PAGE: ("text/html", "text/javascript", "text/css", "image/svg+xml"),
    }
    if kind in kinds:
        return dict.fromkeys(kinds[kind], text)
    return {"application/json": {"schema": {"anyOf": [ref(kind), ref(other)]} if other else ref(kind)}}


def _error(operation: Operation, status: int, *, is_passed_on: bool) -> Schema:
    description = _MEANING.get(status, "refused") if status else "any other error"
    content = _content("Error", "LayerError" if is_passed_on else "")
    return {"description": description, "headers": _headers(status, is_open=operation.is_open), "content": content}


def _headers(status: int, *, is_open: bool) -> Schema:
    headers: Schema = {"x-request-id": {"$ref": "#/components/headers/RequestId"}}
    if not is_open and status not in {401, 403}:
        headers |= _RATES
    if status in {429, 503}:
        headers["Retry-After"] = {"$ref": "#/components/headers/RetryAfter"}
    if status == 504:
        headers["X-Should-Retry"] = {"$ref": "#/components/headers/ShouldRetry"}
    return headers
