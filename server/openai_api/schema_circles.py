"""Detect JSON Schemas with reference cycles that consume no output, which no value can match. Pure.

A tree whose nodes have lists of nodes is not such a cycle: every level writes a bracket. The engine's compiler reports
a true cycle as an internal error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_WHOLE: Final = "#"
_PLACES: Final = (
    ("json_schema", "schema"),
    ("json",),
    ("format", "schema"),
    ("function", "parameters"),
    ("parameters",),
    ("input_schema",),
)
_ROOMS: Final = ("$defs", "definitions")
# Keywords whose schemas apply to the same value as the schema that has them.
_LISTS: Final = ("anyOf", "oneOf", "allOf")
_SINGLE: Final = ("not", "if", "then", "else")


def documents(shape: object) -> Iterator[Mapping[str, Any]]:
    """Yield the complete schemas in a field that constrains the output: of the answer's format, or of tools."""
    for one in shape if isinstance(shape, list) else [shape]:
        for path in _PLACES:
            found = one
            for key in path:
                found = found.get(key) if isinstance(found, Mapping) else None
            if isinstance(found, Mapping):
                yield found


def has_circle(schema: Mapping[str, Any]) -> bool:
    """Return whether the references inside ``schema``, a complete document, form a cycle."""
    named = {_WHOLE: schema}
    for room in _ROOMS:
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
