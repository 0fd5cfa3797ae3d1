"""Schemas that refer to themselves."""

from __future__ import annotations

from typing import Any

import pytest

from server.api.vllm_passthrough.checks import check_plain, has_cycle
from server.errors import RequestError

A = {"$ref": "#/$defs/a"}
B = {"$ref": "#/$defs/b"}
NODE = {"type": "object", "properties": {"next": A, "all": {"type": "array", "items": A}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"anyOf": [{"type": "string"}, {"allOf": [{"$ref": "#"}]}]},
        {"$defs": {"a": A}, **A},
        {"$defs": {"a": {"anyOf": [A, A]}}, **A},
        {"$defs": {"a": {"if": B}, "b": {"oneOf": [{"type": "null"}, A]}}},
        {"definitions": {"a": {"$ref": "#/definitions/a"}}},
    ],
)
def test_a_circle_is_found_and_refused(schema: dict[str, Any]) -> None:
    """Also where the schema is sent as text."""
    assert has_cycle(schema)
    for body in (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}},
        {"structured_outputs": {"json": schema}},
        {"structured_outputs": {"json": str(schema).replace("'", '"')}},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]},
    ):
        with pytest.raises(RequestError, match="refers to itself"):
            check_plain(body, 8)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"$defs": {"a": NODE}, **A},
        {"properties": {"child": {"$ref": "#"}}},
        {"$defs": {"a": B, "b": {"type": "string"}}, "anyOf": [A, B]},
        {"$ref": "#/$defs/missing"},
        {"$defs": 5, "anyOf": 5, "$ref": 5},
    ],
)
def test_a_tree_is_no_circle(schema: dict[str, Any]) -> None:
    """Something is written at each step."""
    assert not has_cycle(schema)


def test_a_schema_as_text_has_the_same_bounds() -> None:
    """Counts, patterns, depth; and it must be JSON."""
    for text in ('{"maxItems": 100000}', '{"pattern": "(a{999}){999}"}', "[" * 60 + "]" * 60, "{", "[" * 30_000):
        with pytest.raises(RequestError):
            check_plain({"structured_outputs": {"json": text}}, 8)
