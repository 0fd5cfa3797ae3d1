"""Validate requests for the plain model before they reach the engine's own OpenAI layer. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from models.decoding.json_schemas import has_lookaround, unenforced
from server.errors import UNSUPPORTED_FIELD, RequestError

_WHOLE: Final = "#"
_SCHEMA_PATHS: Final = (
    ("json_schema", "schema"),
    ("json",),
    ("format", "schema"),
    ("function", "parameters"),
    ("parameters",),
    ("input_schema",),
)
_TOOL_PATHS: Final = (("function", "parameters"), ("parameters",), ("input_schema",))
_DEFINITION_KEYS: Final = ("$defs", "definitions")
# Keywords whose schemas apply to the same value as the schema that has them.
_LISTS: Final = ("anyOf", "oneOf", "allOf")
_SINGLE: Final = ("not", "if", "then", "else")


def constraint_schemas(shape: object) -> Iterator[Mapping[str, Any]]:
    """Yield the complete schemas in a field that constrains the output: of the answer's format, or of tools."""
    for one in shape if isinstance(shape, list) else [shape]:
        for path in _SCHEMA_PATHS:
            found = one
            for key in path:
                found = found.get(key) if isinstance(found, Mapping) else None
            if isinstance(found, Mapping):
                yield found


def has_cycle(schema: Mapping[str, Any]) -> bool:
    """Return whether the references inside ``schema``, a complete document, form a cycle."""
    named = {_WHOLE: schema}
    for room in _DEFINITION_KEYS:
        inner = schema.get(room)
        for name, one in inner.items() if isinstance(inner, Mapping) else ():
            named[f"#/{room}/{name}"] = one
    edges = {name: set(_references(one)) & named.keys() for name, one in named.items()}
    while leaves := [name for name, targets in edges.items() if not targets & edges.keys()]:
        for name in leaves:
            del edges[name]
    return bool(edges)


def _references(schema: object) -> Iterator[str]:
    """Yield the references that must match the same value as the schema."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, Mapping):
            continue
        if isinstance(one.get("$ref"), str):
            yield one["$ref"]
        waiting += [one[key] for key in _SINGLE if key in one]
        waiting += [inner for key in _LISTS if isinstance(one.get(key), list) for inner in one[key]]


# Field -> reason why it is refused.
REFUSED: Final[Mapping[str, str]] = {
    "prompt_embeds": "tensors are not taken from clients",
    "mm_payload": "this server answers text",
    "mm_processor_kwargs": "this server answers text",
    "media_io_kwargs": "this server answers text",
    "return_mm_kwargs": "this server answers text",
    "kv_transfer_params": "caches are not moved for clients",
    "ec_transfer_params": "caches are not moved for clients",
    "kv_hints": "caches are not moved for clients",
    "session_id": "caches are not moved for clients",
    "vllm_xargs": "arguments of the engine's plug-ins are not taken",
    "priority": "the order of requests is the server's",
    "request_id": "the server names its requests",
    "routed_experts_prompt_start": "the engine's inner state is not shown",
    "chat_template": "model.chat_template sets it for the server",
    **dict.fromkeys(
        ("guided_json", "guided_regex", "guided_choice", "guided_grammar"),
        "it would have no effect; ask with structured_outputs, which has json, regex, choice and grammar",
    ),
    "guided_whitespace_pattern": "it would have no effect; structured_outputs has whitespace_pattern",
    "guided_decoding_backend": "the server has one",
    "use_beam_search": "it holds a place for each beam; ask for n instead",
}
# Fields that constrain the output: compiling them costs far more than their length suggests.
_SHAPES: Final = ("response_format", "structured_outputs", "tools", "functions", "text", "output_config")
_MAX_SHAPE_BYTES: Final = 65_536
_MAX_DEPTH: Final = 48
_MAX_ALTERNATIVES: Final = 2048
_MAX_PATTERN: Final = 4096
_MAX_REPEATS: Final = 1000
_REPEATS: Final = re.compile(r"\{\s*(\d*)\s*(?:,\s*(\d*)\s*)?\}")
_COUNTS: Final = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_PATTERNS: Final = frozenset({"pattern", "regex"})
_MEDIA: Final = re.compile(r"image|audio|video|file|document", re.IGNORECASE)
_TEXT_PARTS: Final = frozenset({"text", "input_text", "output_text"})
# Maximum lengths of collections that the engine processes or stores at every token. For the first four it has a table
# with so many places; what the model itself adds to them (end tokens, tokens of words), the engine's adapter counts.
LONGEST: Final[Mapping[str, int]] = {
    "logit_bias": 1024,
    "bad_words": 128,
    "allowed_token_ids": 1024,
    "stop_token_ids": 128,
    "stop": 16,
    "stop_sequences": 16,
    "tools": 128,
    "logprob_token_ids": 128,
}
# Each is tokenized when the request arrives.
_MAX_BAD_WORDS_CHARS: Final = 8192
MAX_LOGPROBS: Final = 20
MAX_PROMPTS: Final = 64


def check_plain(body: Mapping[str, Any], max_n: int) -> Mapping[str, Any]:
    """Return the body unchanged after validation.

    Raises:
        UNSUPPORTED_FIELD: the field is not served; ``param`` names it.
        RequestError: the value is not valid; ``param`` names the field.
    """
    if body.get("messages") == []:
        raise RequestError("messages: there is none; send at least one", param="messages")
    for name, value in body.items():
        if name in REFUSED and value not in (None, False, 0, [], {}):
            raise RequestError(f"{name}: {REFUSED[name]}; leave {name} out", UNSUPPORTED_FIELD, param=name)
        if name in LONGEST and isinstance(value, list | dict) and len(value) > LONGEST[name]:
            raise RequestError(f"{name}: at most {LONGEST[name]} are taken", param=name)
    words = body.get("bad_words")
    if isinstance(words, list) and sum(len(one) for one in words if isinstance(one, str)) > _MAX_BAD_WORDS_CHARS:
        raise RequestError(f"bad_words: at most {_MAX_BAD_WORDS_CHARS} characters are taken", param="bad_words")
    _check_numbers(body, max_n)
    for name in ("messages", "input", "system"):
        _check_parts(body.get(name), name)
    for name in _SHAPES:
        check_shape(_unpacked(body.get(name), name), name)
    return body


def _check_numbers(body: Mapping[str, Any], max_n: int) -> None:
    for name in ("n", "best_of"):
        if _is_number(body.get(name)) and body[name] > max_n:
            raise RequestError(f"{name}: at most {max_n} choices are given", param=name)
    for name in ("logprobs", "top_logprobs", "prompt_logprobs"):
        if _is_number(body.get(name)) and not 0 <= body[name] <= MAX_LOGPROBS:
            raise RequestError(f"{name}: must be from 0 to {MAX_LOGPROBS}", param=name)
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) and len(prompt) > MAX_PROMPTS:
        raise RequestError(f"prompt: at most {MAX_PROMPTS} are taken at once", param="prompt")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_parts(content: object, name: str) -> None:
    """Check that messages consist of text: a part of another kind may be an address that the layer would fetch."""
    for part in _parts(content):
        kind = part.get("type")
        if kind in _TEXT_PARTS:
            continue
        if isinstance(kind, str) and _MEDIA.search(kind):
            raise RequestError(
                f"{name}: a part is {kind[:40]}; this server answers text: send text", UNSUPPORTED_FIELD, param=name
            )
        for key, value in part.items():
            if value is not None and _MEDIA.search(key):
                raise RequestError(
                    f"{name}: a part has {key[:40]}; this server answers text: send text", UNSUPPORTED_FIELD, param=name
                )


def _parts(content: object) -> Iterator[Mapping[str, Any]]:
    """Yield the messages and the parts of their contents, at any depth that a message can have."""
    waiting = [content]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, dict):
            yield one
            waiting.append(one.get("content"))
            waiting.append(one.get("output"))


def _unpacked(shape: object, name: str) -> object:
    """Return the field with its schema parsed, where the schema is sent as text."""
    if not isinstance(shape, dict) or not isinstance(text := shape.get("json"), str):
        return shape
    try:
        return shape | {"json": json.loads(text)}
    except (ValueError, RecursionError):
        raise RequestError(f"{name}: json is no JSON", param=name) from None


def check_shape(shape: object, name: str) -> None:
    """Check that what constrains an output can be prepared at bounded cost.

    Raises:
        RequestError: it is too long, too deep or too repetitive; ``name`` is the field.
        UNSUPPORTED_FIELD: a schema that must be satisfied has a keyword that is not enforced.
    """
    if shape is None:
        return
    if len(json.dumps(shape)) > _MAX_SHAPE_BYTES:
        raise RequestError(f"{name}: at most {_MAX_SHAPE_BYTES} bytes are taken", param=name)
    waiting: list[tuple[object, int]] = [(shape, 0)]
    while waiting:
        one, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            raise RequestError(f"{name}: is nested more than {_MAX_DEPTH} deep", param=name)
        if isinstance(one, dict):
            for key, value in one.items():
                _check_member(key, value, name)
                waiting.append((value, depth + 1))
        elif isinstance(one, list):
            if len(one) > _MAX_ALTERNATIVES:
                raise RequestError(f"{name}: a list has more than {_MAX_ALTERNATIVES} members", param=name)
            waiting.extend((value, depth + 1) for value in one)
    if any(has_cycle(schema) for schema in constraint_schemas(shape)):
        raise RequestError(f"{name}: a schema refers to itself with nothing in between", param=name)
    for schema, may_be_loose in _binding_schemas(shape):
        if fault := unenforced(schema):
            remedy = ", or send strict: false, which promises nothing" if may_be_loose else ""
            message = f"{name}: the JSON schema has {fault} which is not enforced here; leave it out{remedy}"
            raise RequestError(message, UNSUPPORTED_FIELD, param=name)


def _binding_schemas(shape: object) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Yield the schemas that the output must satisfy, each with whether strict: false takes that back.

    Those of tools bind where strict is true, as OpenAI has it: others say what a tool would like.
    """
    for one in shape if isinstance(shape, list) else [shape]:
        for path in _SCHEMA_PATHS:
            holder = one
            for key in path[:-1]:
                holder = holder.get(key) if isinstance(holder, Mapping) else None
            schema = holder.get(path[-1]) if isinstance(holder, Mapping) else None
            if not isinstance(holder, Mapping) or not isinstance(schema, Mapping):
                continue
            strict = holder.get("strict")
            if strict is True or (path not in _TOOL_PATHS and strict is not False):
                yield schema, path != ("json",)


def _check_member(key: object, value: object, name: str) -> None:
    if key in _COUNTS and _is_number(value) and float(str(value)) > _MAX_REPEATS:
        raise RequestError(f"{name}: {key} may be {_MAX_REPEATS} at most", param=name)
    if key not in _PATTERNS or not isinstance(value, str):
        return
    if key == "regex" and has_lookaround(value):
        raise RequestError(f"{name}: (?=, (?!, (?<= and (?<! are not enforced in a pattern; do without", param=name)
    if len(value) > _MAX_PATTERN:
        raise RequestError(f"{name}: a pattern is longer than {_MAX_PATTERN} characters", param=name)
    product = 1
    for found in _REPEATS.finditer(value):
        product *= max(int(found[1] or 1), int(found[2] or 1), 1)
        if product > _MAX_REPEATS:
            raise RequestError(f"{name}: the repetitions of a pattern come to more than {_MAX_REPEATS}", param=name)
