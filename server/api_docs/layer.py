"""Describe the engine's own OpenAI layer (vLLM), which answers requests for the plain model where it exists.

The layer accepts the fields of ``vllm serve``. The schemas name the fields that are always present and those that this
server refuses before the layer sees them.
"""

from __future__ import annotations

from typing import Any, Final

from server.api_docs.examples import FIELDS
from server.openai_api.plain_checks import LONGEST, MAX_LOGPROBS, REFUSED

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
