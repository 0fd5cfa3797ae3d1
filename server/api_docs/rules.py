"""What the bodies' own schemas do not say: rules over several fields, and fields that may only be there unused."""

from __future__ import annotations

from typing import Any, Final

from server.openai_api.schemas import IGNORED, NEUTRAL

Schema = dict[str, Any]
_UNUSED: Final = "not served: accepted only at a value that means that it is not used"
_GIVEN: Final[Schema] = {"not": {"type": "null"}}
_HAS_TEXT: Final[Schema] = {"type": "string", "pattern": r"\S"}
_HAS_WORDS: Final[Schema] = {"pattern": r"\w"}
_DAY: Final[Schema] = {"pattern": r"^\d{4}-?\d\d-?\d\d$"}


def add_rules(schemas: dict[str, Schema]) -> None:
    """Changes the schemas of the bodies in place."""
    for name in ("ChatRequest", "CompletionRequest"):
        _add_unused(schemas[name])
        _require(schemas[name], "stream_options", "stream")
        schemas[name]["properties"]["arrowhead"]["description"] = (
            "options of the method, e.g. max_calls, references, egress; GET /v1/models names the methods"
        )
    chat = schemas["ChatRequest"]
    _require(chat, "top_logprobs", "logprobs")
    both = {"max_tokens": _GIVEN, "max_completion_tokens": _GIVEN}
    chat.setdefault("allOf", []).append({"not": {"required": list(both), "properties": both}})
    chat["properties"]["messages"]["contains"] = _user_message()
    _narrow(schemas["CompletionRequest"]["properties"]["prompt"], _HAS_TEXT)
    queries = [{"required": [name], "properties": {name: _GIVEN}} for name in ("query", "queries")]
    schemas["SearchBody"]["oneOf"] = queries
    _narrow(schemas["SearchBody"]["properties"]["query"], _HAS_WORDS)
    _narrow(schemas["SearchBody"]["properties"]["queries"], _HAS_WORDS)
    _narrow(schemas["QueryBody"]["properties"]["term"], _HAS_WORDS)
    for name in ("FilterBody", "QueryBody"):
        for day in ("date_from", "date_to"):
            _narrow(schemas[name]["properties"][day], _DAY)
    document = schemas["DocumentBody"]
    document["anyOf"] = [{"required": [part], "properties": {part: _HAS_WORDS}} for part in ("title", "text")]
    schemas["NamespaceBody"]["properties"]["name"]["pattern"] = "^[a-z0-9][a-z0-9_-]{0,62}$"


def _add_unused(schema: Schema) -> None:
    for name, values in NEUTRAL.items():
        if name not in schema["properties"]:
            schema["properties"][name] = {"enum": list(values), "description": _UNUSED}
    for name in sorted(IGNORED):
        schema["properties"][name] = {"description": "accepted, changes nothing"}


def _require(schema: Schema, field: str, needed: str) -> None:
    given = {"required": [field], "properties": {field: _GIVEN}}
    then = {"required": [needed], "properties": {needed: {"const": True}}}
    schema.setdefault("allOf", []).append({"if": given, "then": then})


def _user_message() -> Schema:
    part = {"type": "object", "properties": {"text": _HAS_TEXT}, "required": ["text"]}
    content = {"anyOf": [_HAS_TEXT, {"type": "array", "contains": part}]}
    return {
        "type": "object",
        "properties": {"role": {"const": "user"}, "content": content},
        "required": ["role", "content"],
    }


def _narrow(schema: Schema, rule: Schema) -> None:
    """Every text in it, whether alone or in a list, follows the rule as well."""
    if schema.get("type") == "string":
        schema.update(rule)
    for branch in schema.get("anyOf", ()):
        _narrow(branch, rule)
    if schema.get("type") == "array":
        _narrow(schema["items"], rule)
