"""Keywords of JSON schema: those that the grammar does not enforce are named, those that it does are taken."""

from __future__ import annotations

import json
from typing import Any

import pytest
import xgrammar
from xgrammar.testing import _is_grammar_accept_string

from models.decoding.grammar import json_form
from models.decoding.json_schemas import unenforced

A, B = {"a": {"type": "integer"}}, {"b": {"type": "integer"}}
AB = {"type": "object", "properties": A | B}
LETTERS = {"enum": ["a", "b"]}


def accepts(schema: dict[str, Any], value: Any) -> bool:
    """Return whether the grammar of a schema lets a model write this value."""
    grammar = xgrammar.Grammar.from_structural_tag({"type": "structural_tag", "format": json_form(schema)})
    return bool(_is_grammar_accept_string(grammar, json.dumps(value)))


@pytest.mark.parametrize(
    ("named", "schema", "violation"),
    [
        ("uniqueItems", {"type": "array", "items": LETTERS, "uniqueItems": True}, ["a", "a"]),
        ("contains", {"type": "array", "items": LETTERS, "contains": {"const": "b"}}, ["a"]),
        ("not", {"type": "integer", "not": {"const": 1}}, 1),
        ("if", AB | {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}}, {"a": 1}),
        ("dependentRequired", AB | {"dependentRequired": {"a": ["b"]}}, {"a": 1}),
        ("dependentSchemas", AB | {"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}),
        ("multipleOf of numbers", {"type": "number", "multipleOf": 0.5}, 0.3),
        ("multipleOf beside minimum", {"type": "integer", "multipleOf": 7, "minimum": 10}, 15),
        ("minimum without type", {"minimum": 5}, 4),
        ("minLength without type", {"minLength": 3}, "a"),
        ("minItems without type", {"minItems": 2}, [1]),
        ("required without type", {"required": ["a"]}, {}),
        ("maxLength beside pattern", {"type": "string", "pattern": "^a+$", "maxLength": 2}, "aaa"),
        ("pattern beside format", {"type": "string", "format": "date", "pattern": "^2021"}, "2020-01-01"),
        ("format iri", {"type": "string", "format": "iri"}, "no iri {"),
        ("pattern with", {"type": "string", "pattern": "^(?=a)b$"}, "b"),
        ("type beside enum", {"type": "string", "enum": ["a", 1]}, 1),
        ("maximum beside enum", {"type": "integer", "enum": [1, 9], "maximum": 5}, 9),
        ("minimum beside const", {"const": 3, "minimum": 5}, 3),
        ("minimum beside $ref", {"$defs": {"i": {"type": "integer"}}, "$ref": "#/$defs/i", "minimum": 5}, 3),
        ("$ref to", {"$ref": "#x", "$defs": {"x": {"$anchor": "x", "type": "integer"}}}, "a"),
        ("properties beside anyOf", {"properties": A, "anyOf": [{"required": ["a"]}]}, {}),
        ("minimum beside allOf", {"minimum": 3, "allOf": [{"type": "integer"}]}, 1),
        ("allOf of", {"allOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 5}]}, 9),
        ("oneOf of", {"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1),
        ("required of 'z'", {"type": "object", "properties": A, "required": ["z"]}, {"a": 1}),
        ("propertyNames beside", {"type": "object", "properties": B, "propertyNames": {"pattern": "^a"}}, {"b": 1}),
        (
            "patternProperties of",
            {"type": "object", "patternProperties": {"^a.*$": {"type": "integer"}, "^.*b$": {"type": "string"}}},
            {"ab": 1},
        ),
    ],
)  # fmt: skip
def test_what_the_grammar_lets_through_is_named(named: str, schema: dict[str, Any], violation: Any) -> None:
    """Alone, and inside other schemas."""
    assert accepts(schema, violation)
    assert unenforced(schema).startswith(named)
    inside = {"type": "object", "properties": {"x": {"type": "array", "items": schema}}}
    if "$ref" not in schema:
        assert unenforced(inside).startswith(named)
        assert unenforced({"$defs": {"x": schema}, "$ref": "#/$defs/x"}).startswith(named)


@pytest.mark.parametrize(
    ("schema", "good", "violation"),
    [
        ({"type": "integer", "minimum": 5, "exclusiveMaximum": 9}, 5, 9),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, 0.7, 0),
        ({"type": "integer", "multipleOf": 7}, 14, 15),
        ({"type": ["string", "null"], "minLength": 2, "maxLength": 3}, None, "a"),
        ({"type": "string", "format": "date"}, "2026-11-28", "no date {"),
        ({"type": "string", "pattern": "^[A-Z]{3}-\\d+$"}, "ABC-1", "abc-1"),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, [1], []),
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": False}, [1, 1], ["a"]),
        ({"prefixItems": [{"type": "integer"}], "items": False}, [1], [1, 2]),
        ({"type": "object", "properties": A, "required": ["a"], "additionalProperties": False}, {"a": 1}, {}),
        ({"type": "object", "additionalProperties": {}, "maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}),
        ({"type": "object", "patternProperties": {"^a.*$": {"type": "integer"}}}, {"ab": 1}, {"ab": "x"}),
        ({"type": "object", "propertyNames": {"pattern": "^a+$"}, "additionalProperties": True}, {"a": 1}, {"b": 1}),
        ({"enum": ["a", 1, None], "description": "one of", "default": "a"}, 1, 2),
        ({"type": "string", "enum": ["a", "b"]}, "a", "c"),
        ({"type": "number", "const": 3}, 3, 4),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "Age"}, None, "a"),
        ({"type": ["integer", "null"], "anyOf": [{"type": "integer"}, {"type": "null"}]}, 1, "a"),
        ({"oneOf": [{"const": "a"}, {"const": "b"}], "type": "string"}, "a", "c"),
        ({"allOf": [{"$ref": "#/$defs/i"}], "$defs": {"i": {"type": "integer"}}}, 1, "a"),
        ({"$defs": {"i": {"type": "integer"}}, "$ref": "#/$defs/i", "description": "x"}, 1, "a"),
        ({"type": "object", "properties": {"not": {"type": "integer"}, "if": {}}}, {"not": 1}, {"not": "a"}),
    ],
)  # fmt: skip
def test_what_the_grammar_enforces_is_taken(schema: dict[str, Any], good: Any, violation: Any) -> None:
    """Names of properties are no keywords, and annotations ask for nothing."""
    assert unenforced(schema) == ""
    assert accepts(schema, good) and not accepts(schema, violation)


def test_a_union_with_a_tag_is_taken() -> None:
    """As pydantic writes one: no value satisfies two of its schemas."""
    cases = {
        name: {
            "type": "object",
            "properties": {"kind": {"const": name}, "v": {"type": kind}},
            "required": ["kind", "v"],
        }
        for name, kind in (("gene", "integer"), ("drug", "string"))
    }
    union = {"$defs": cases, "oneOf": [{"$ref": f"#/$defs/{name}"} for name in cases]}
    assert unenforced(union) == ""
    assert accepts(union, {"kind": "gene", "v": 1}) and not accepts(union, {"kind": "gene", "v": "x"})


@pytest.mark.parametrize(
    "schema",
    [{"format": 3, "type": "string"}, {"type": 5}, {"properties": [], "required": 7}, {"enum": "a"}, {"anyOf": {}},
     {"oneOf": [True, 3]}, {"$ref": 5}, {"patternProperties": {"(": {}}, "properties": {"a": {}}}, {"items": [1]}],
)  # fmt: skip
def test_what_is_no_schema_is_the_compilers_to_refuse(schema: dict[str, Any]) -> None:
    """No wrong type ends in an exception here."""
    unenforced(schema)
