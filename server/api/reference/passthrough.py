"""Describe the requests that are passed on to the engine's own OpenAI layer, of which FastAPI sees nothing."""

from __future__ import annotations

from typing import Any, Final

from server.api.declarations import QUESTION
from server.api.vllm_passthrough.checks import LONGEST, MAX_LOGPROBS, REFUSED
from server.api.vllm_passthrough.dispatch import NEED_TEMPLATE

Schema = dict[str, Any]
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
# Route that only the layer serves -> schema of its reply.
_LAYER_ALONE: Final = {"/v1/messages": "LayerMessage", "/v1/messages/count_tokens": "LayerCount"}
_ABOUT: Final = (
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
    for path in _LAYER_ALONE.keys() - set(paths):
        del document["paths"][path]["post"]["responses"]["200"]
    for path in paths:
        _add_layer(path, document["paths"][path]["post"], layer_body(path, model, max_choices))
    if model:
        document["info"]["description"] += _ABOUT.format(model=model)
        document["components"]["schemas"] |= _layer_schemas()


def _add_layer(path: str, operation: Schema, body: Schema) -> None:
    operation["responses"].setdefault("400", {"description": "the engine's own layer refuses a field"})
    reply = _ref(_LAYER_ALONE.get(path, "LayerReply"))
    received = operation["requestBody"]["content"]["application/json"]
    if path in _LAYER_ALONE:
        received["schema"] = body
        operation["responses"]["200"]["content"]["application/json"]["schema"] = reply
    else:
        add_alternative(received, body)
        add_alternative(operation["responses"]["200"]["content"]["application/json"], reply)
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
    count: Schema = {"type": "object", "properties": {"input_tokens": {"type": "integer"}}}
    return {
        "LayerReply": {"type": "object", "description": "as vLLM's own server replies, without the member arrowhead"},
        "LayerMessage": {"type": "object", "properties": {"type": {"const": "message"}}, "required": ["type"]},
        "LayerCount": count | {"required": ["input_tokens"]},
        "LayerError": {"type": "object", "properties": {"error": message}, "required": ["error"]},
    }
