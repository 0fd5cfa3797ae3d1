"""Serve ``/openapi.json``, FastAPI's document completed with what it cannot know, and ``/docs``, Swagger UI over it.

FastAPI cannot know keys, errors, limits and names of the running server, and the requests that are passed on to the
engine's own OpenAI layer. The page and its script contain no data of the server and need no key. The document needs a
key as other routes do; the page asks for the key and stores it in memory only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from models.catalog import ModelCard
from models.engines.base import ServesOpenAi
from models.errors import ArrowheadError
from server.api.declarations import GIVEN, QUESTION, Reads, Responses
from server.api.http_io import MAX_CHOICES
from server.api.vllm_passthrough.checks import LONGEST, MAX_LOGPROBS, REFUSED
from server.api.vllm_passthrough.dispatch import NEED_TEMPLATE
from server.error_mapping import ANTHROPIC_KINDS, ANTHROPIC_PATHS, KINDS, error_codes
from server.methods.base import uses_chat_template
from server.middleware import OPEN_PATHS
from server.wiring.services import Services

Schema = dict[str, Any]
ABOUT: Final = (
    "Biomedical questions, answered with sources. The paths below /v1 are OpenAI's; what is ours stands in the member "
    "`arrowhead` of requests and answers. Unknown fields are refused by name. Each reply has its x-request-id: the "
    "client's own where that is 16 to 64 hexadecimal digits, dashes between them allowed. A path takes the methods "
    "that are named here and gets 405 for others."
)
TAGS: Final = tuple(
    {"name": name} for name in ("Answers", "Retrieval", "Namespaces", "Files", "Reviews", "MCP", "Server", "Page")
)
_OPEN: Final = OPEN_PATHS | {"/docs/{name}", "/web/{name}"}
_MEANING: Final = {
    "400": "a parameter of the address is wrong; `param` names it",
    "401": "there is no valid key",
    "403": "the key, the server's mode or the page that asks may not do this",
    "404": "there is none of this name, or none for this key",
    "408": "the body did not come in server.body_timeout_s",
    "409": "it exists already, or is being changed",
    "413": "the body is longer than server.max_body_bytes, or a document is",
    "422": "a field is wrong; `param` names it",
    "429": "the server is full, or the key has asked too often or has its share; see Retry-After",
    "431": "too many headers, or too long with the address",
    "499": "the client went away before its answer began",
    "500": "the server failed",
    "502": "NCBI failed",
    "503": "the model is loading, has died or failed, the server stops, or its keys cannot be read",
    "504": "no answer in time: server.request_timeout_s, X-Request-Timeout, or NCBI's",
    "507": "the disk is full",
    "default": "any other error",
}
_TEXT: Final[Schema] = {"type": "string"}
_HEADERS: Final[dict[str, Schema]] = {
    "RequestId": {"schema": _TEXT, "description": "of the log's lines"},
    "RetryAfter": {"schema": {"type": "integer"}, "description": "seconds"},
    "ShouldRetry": {"schema": {"const": "false"}, "description": "to OpenAI's SDKs: the same deadline comes again"},
    "RateCount": {"schema": {"type": "integer"}, "description": "of a minute; only for keys that have a rate"},
    "RateReset": {"schema": _TEXT, "description": "until all is there again, as 250ms, 7s or 1m30s"},
}
_RATES: Final = {
    f"x-ratelimit-{what}-{unit}": {"$ref": f"#/components/headers/Rate{'Reset' if what == 'reset' else 'Count'}"}
    for unit in ("requests", "tokens")
    for what in ("limit", "remaining", "reset")
}


class Example(NamedTuple):
    """Hold a served model and a question to it."""

    model: str
    question: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Hold the facts about the running server that the OpenAPI document depends on.

    - ``needs_key``: requests without a key are refused.
    - ``vocabulary``: number of tokens of the served model, None while the model is not loaded.
    - ``has_turns``: the model formats chats with a template.
    - ``layer_model``: name of the model that the engine's own OpenAI layer serves, "" where there is no layer or the
      engine is not loaded.
    - ``model``, ``encoder`` and ``example``: names used in examples.
    """

    needs_key: bool
    max_choices: int
    vocabulary: int | None
    has_turns: bool
    layer_model: str
    model: str
    encoder: str
    example: Example


# In order of preference: the question of each is answered from what comes with the package.
_QUESTIONS: Final = {"genegpt": QUESTION, "medrag": "Which drug reverses heparin?"}


def example_for(card: ModelCard) -> Example:
    """Return an example that works on the model: of a method that it can write, else of one that needs no writing."""
    able = (method for method in _QUESTIONS if card.writes(method))
    method = next(able, "medrag")
    return Example(f"{card.name}:{method}", _QUESTIONS[method])


def running_of(services: Services) -> Running:
    card = services.lifecycle.card
    vocabulary, layer, has_turns = None, "", card.prompt_form == "chat"
    try:
        engine = services.lifecycle.get()
    except ArrowheadError:
        pass
    else:
        vocabulary, has_turns = engine.tokenizer.vocab_size, uses_chat_template(engine, card)
        layer = card.name if isinstance(engine, ServesOpenAi) else ""
    return Running(
        needs_key=services.key_lookup.requires_key,
        max_choices=MAX_CHOICES,
        vocabulary=vocabulary,
        has_turns=has_turns,
        layer_model=layer,
        model=card.name,
        encoder=services.settings.retrieval.encoder_names[0],
        example=example_for(card),
    )


def operation_id(route: APIRoute) -> str:
    """Return the operationId: the verb and the path's words."""
    return re.sub(r"\W+", "_", f"{min(route.methods)}_{route.path_format}").strip("_").lower()


def completed(generated: Schema, routes: Iterable[BaseRoute], running: Running) -> Schema:
    """Return the generated document with what the routes, as FastAPI reads them, do not tell."""
    document = deepcopy(generated)
    model, question = running.example
    first = {"model": model} | _asking(question)["ChatRequest"]
    document["info"]["description"] = (
        f"To begin: `POST /v1/chat/completions` with `{json.dumps(first)}`. {document['info']['description']}"
    )
    document["security"] = [{"bearer": []}] if running.needs_key else [{}]
    components = document["components"]
    components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    components["headers"] = deepcopy(_HEADERS)
    components["schemas"] |= _body_schemas(routes, running) | _error_schemas()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _add_errors(operation, path)
    add_passthrough(document, running.layer_model, running.max_choices, has_turns=running.has_turns)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                response["headers"] = _headers(status, is_open=path in _OPEN)
    return document


def _body_schemas(routes: Iterable[BaseRoute], running: Running) -> dict[str, Schema]:
    """Return the schemas of the bodies that handlers read themselves, within the limits of the running server."""
    extras = [route.openapi_extra for route in routes if isinstance(route, APIRoute)]
    found = dict.fromkeys(model for extra in extras if isinstance(extra, Reads) for model in extra.models)
    _, schema = models_json_schema(
        [(model, "validation") for model in found], ref_template="#/components/schemas/{model}"
    )
    schemas: dict[str, Schema] = deepcopy(schema["$defs"])
    for name in ("ChatRequest", "CompletionRequest"):
        _limit(schemas[name]["properties"]["n"], "maximum", running.max_choices)
    _limit(schemas["CompletionRequest"]["properties"]["prompt"], "maxItems", running.max_choices)
    if running.vocabulary is not None:
        schemas["DetokenizeRequest"]["properties"]["tokens"]["items"]["maximum"] = running.vocabulary - 1
    if not running.has_turns:
        turns = {"contains": {"properties": {"role": {"const": "user"}}}}
        plain = {"add_generation_prompt": {"const": True}, "messages": turns}
        chat = {"required": ["messages"], "properties": {"messages": GIVEN}}
        schemas["TokenizeRequest"]["allOf"] = [{"if": chat, "then": {"properties": plain}}]
    names = {"model": running.model, "encoder": running.encoder}
    for example in (example for one in schemas.values() for example in one.get("examples", ())):
        if "model" in example:
            example["model"] = names[example["model"]]
    model, question = running.example
    for name, body in _asking(question).items():
        if name in schemas:
            schemas[name]["examples"] = [{"model": model} | body]
    return schemas


def _asking(question: str) -> dict[str, Schema]:
    """Return the bodies that ask a question, by the name of their schema."""
    chat = {"messages": [{"role": "user", "content": question}]}
    return {"ChatRequest": chat, "CompletionRequest": {"prompt": question}, "ResponseRequest": {"input": question}}


def _limit(schema: Schema, word: str, most: int) -> None:
    for branch in schema["anyOf"]:
        if word in branch:
            branch[word] = min(branch[word], most)


def _error_schemas() -> dict[str, Schema]:
    codes, types = sorted(error_codes()), sorted(KINDS)
    param = {"type": ["string", "null"], "description": "the field that is at fault"}
    members: Schema = {"message": _TEXT, "type": {"enum": types}, "param": param, "code": {"enum": codes}}
    error: Schema = {"type": "object", "properties": members, "required": list(members)}
    own = {"type": "object", "properties": {"error": error}, "required": ["error"]}
    kinds = {"type": {"enum": sorted(ANTHROPIC_KINDS)}}
    anthropic = {"type": {"const": "error"}, "error": error | {"properties": members | kinds}}
    return {
        "Error": own,
        "AnthropicError": {"type": "object", "properties": anthropic, "required": ["type", "error"]},
    }


def _add_errors(operation: Schema, path: str) -> None:
    """Add the errors that every route, every route with a key and every route with a body can give."""
    responses, is_open = operation["responses"], path in _OPEN
    schema = _ref("AnthropicError" if path in ANTHROPIC_PATHS else "Error")
    if is_open:
        operation["security"] = []
    for status in ("403", "431", *(() if is_open else ("401", "429", "503"))):
        responses.setdefault(status, {})
    if "requestBody" in operation:
        responses.setdefault("408", {})
    for status, response in responses.items():
        if status in _MEANING:
            response["description"] = _MEANING[status]
            content = response.setdefault("content", {}).setdefault("application/json", {})
            add_alternative(content, schema)


def _headers(status: str, *, is_open: bool) -> Schema:
    headers: Schema = {"x-request-id": {"$ref": "#/components/headers/RequestId"}}
    if not is_open and status not in {"401", "403"}:
        headers |= _RATES
    if status in {"429", "503"}:
        headers["Retry-After"] = {"$ref": "#/components/headers/RetryAfter"}
    if status == "504":
        headers["X-Should-Retry"] = {"$ref": "#/components/headers/ShouldRetry"}
    return headers


_MESSAGES: Final = [{"role": "user", "content": QUESTION}]
# Route -> required members of its bodies beside ``model``, and their values in the example.
_NEEDED: Final[dict[str, tuple[dict[str, Schema], Schema]]] = {
    "/v1/chat/completions": ({"messages": {"type": "array"}}, {"messages": _MESSAGES}),
    "/v1/completions": ({"prompt": {}}, {"prompt": "The official gene symbol of LMP10 is"}),
    "/v1/responses": ({"input": {}}, {"input": QUESTION}),
    "/v1/messages": (
        {"messages": {"type": "array"}, "max_tokens": {"type": "integer", "minimum": 1}},
        {"messages": _MESSAGES, "max_tokens": 64},
    ),
    "/v1/messages/count_tokens": ({"messages": {"type": "array"}}, {"messages": _MESSAGES}),
}
_LAYER_ABOUT: Final = (
    " Requests for {model} itself, without the member `arrowhead`, are answered by the engine's own OpenAI layer "
    "(vLLM): it takes more fields than are named here and refuses wrong ones with 400."
)


def layer_body(path: str, model: str, max_choices: int) -> Schema:
    """Return the schema of a request body that is forwarded to the engine's OpenAI layer."""
    required, example = _NEEDED[path]
    members: dict[str, Schema] = {"model": {"const": model}} | required
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
    examples = [{"model": model} | example]
    return {"type": "object", "description": about, "properties": members, "required": needed, "examples": examples}


def add_passthrough(document: Schema, model: str, max_choices: int, *, has_turns: bool) -> None:
    """Add the layer's bodies and replies to the routes that it answers for ``model``, "" where there is no layer."""
    paths = [path for path in _NEEDED if model and (has_turns or path not in NEED_TEMPLATE)]
    for path in paths:
        _add_layer(path, document["paths"][path]["post"], layer_body(path, model, max_choices))
    if model:
        document["info"]["description"] += _LAYER_ABOUT.format(model=model)
        document["components"]["schemas"] |= _layer_schemas()


def _add_layer(path: str, operation: Schema, body: Schema) -> None:
    operation["responses"].setdefault("400", {"description": "the engine's own layer refuses a field"})
    add_alternative(operation["requestBody"]["content"]["application/json"], body)
    add_alternative(operation["responses"]["200"]["content"]["application/json"], _ref("LayerReply"))
    for status, response in operation["responses"].items():
        if status != "200":
            content = response.setdefault("content", {}).setdefault("application/json", {})
            add_alternative(content, _ref("LayerError"))


def add_alternative(media: Schema, schema: Schema) -> None:
    """Let the content of a media type be ``schema``, too."""
    present = media.get("schema")
    media["schema"] = {"anyOf": [*present.get("anyOf", [present]), schema]} if present else schema


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _layer_schemas() -> dict[str, Schema]:
    """Return the schemas of the layer's replies; ``LayerError`` carries its own messages about wrong fields."""
    message: Schema = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
    return {
        "LayerReply": {"type": "object", "description": "as vLLM's own server replies, without the member arrowhead"},
        "LayerError": {"type": "object", "properties": {"error": message}, "required": ["error"]},
    }


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
    running = running_of(services)
    document = await services.compute(request.state.owner, lambda: request.app.describe(running))
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
