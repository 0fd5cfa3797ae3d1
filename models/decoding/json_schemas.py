"""Tell which keywords of a JSON schema the grammar of its JSON does not enforce, so that none is silently violated.

What is enforced was measured on xgrammar 0.2, which ignores the rest without an error: it takes one of ``$ref``,
``const``, ``enum``, ``anyOf``, ``oneOf`` and ``allOf`` and then looks at no keyword beside it, and it takes ``oneOf``
for ``anyOf``. Unknown keywords and unknown formats are annotations, as the standard has it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

Schema = Mapping[str, Any]
_NUMBERS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_LENGTHS: Final = frozenset({"minLength", "maxLength"})
_STRINGS: Final = _LENGTHS | {"pattern", "format"}
_ARRAYS: Final = frozenset({"minItems", "maxItems"})
_OBJECTS: Final = frozenset({"minProperties", "maxProperties", "required", "propertyNames"})
_ITEMS: Final = frozenset({"items", "prefixItems", "unevaluatedItems"})
_MEMBERS: Final = frozenset({"properties", "patternProperties", "additionalProperties", "unevaluatedProperties"})
# Keyword -> types that it is about, and keywords that say the type as well as ``type`` does.
_NEEDS: Final = {
    **dict.fromkeys(_NUMBERS, (frozenset({"integer", "number"}), frozenset[str]())),
    **dict.fromkeys(_STRINGS, (frozenset({"string"}), frozenset[str]())),
    **dict.fromkeys(_ARRAYS, (frozenset({"array"}), _ITEMS)),
    **dict.fromkeys(_OBJECTS, (frozenset({"object"}), _MEMBERS)),
}
_NEVER: Final = (
    *("not", "if", "then", "else", "contains", "minContains", "maxContains", "uniqueItems"),
    *("dependentRequired", "dependentSchemas", "dependencies", "$dynamicRef", "$recursiveRef"),
)
_ALONE: Final = ("$ref", "const", "enum", "anyOf", "oneOf", "allOf")
_CONDITIONS: Final = frozenset({*_NEEDS, *_ITEMS, *_MEMBERS, *_ALONE, "type"})
_FREE_FORMATS: Final = frozenset({"iri", "iri-reference", "idn-email", "idn-hostname", "regex"})
_LOOKAROUND: Final = re.compile(r"\(\?<?[=!]")
_OF_ONE: Final = (
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "items", "unevaluatedItems", "not", "if"),
    *("then", "else", "contains"),
)
_OF_MANY: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_OF_NAMES: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_MAX_REFERENCES: Final = 16
_MAX_BRANCHES: Final = 64


def unenforced(schema: Schema) -> str:
    """Return the first keyword that is not enforced, with the reason where it depends on others; "" for none."""
    waiting: list[tuple[Any, str]] = [(schema, "")]
    while waiting:
        part, implied_type = waiting.pop()
        if isinstance(part, Mapping):
            fault = next(_faults(part, schema, implied_type), "")
            if fault:
                return fault
            waiting += _inner(part)
    return ""


def has_lookaround(pattern: str) -> bool:
    """Return whether a regular expression looks ahead or behind, which the grammar ignores."""
    return _LOOKAROUND.search(pattern) is not None


def _inner(schema: Schema) -> Iterator[tuple[Any, str]]:
    """Yield the schemas inside one, each with the type that its place implies."""
    for keyword in _OF_ONE:
        yield schema.get(keyword), "string" if keyword == "propertyNames" else ""
    for keyword in _OF_MANY:
        yield from ((part, "") for part in _list(schema.get(keyword)))
    for keyword in _OF_NAMES:
        yield from ((part, "") for part in _object(schema.get(keyword)).values())


def _faults(schema: Schema, root: Schema, implied_type: str) -> Iterator[str]:
    yield from (keyword for keyword in _NEVER if schema.get(keyword) not in (None, False, [], 0) and keyword in schema)
    yield from _beside(schema, root)
    yield from _without_type(schema, implied_type)
    yield from _of_numbers(schema)
    yield from _of_strings(schema)
    yield from _of_objects(schema)


def _beside(schema: Schema, root: Schema) -> Iterator[str]:
    """Yield keywords that stand beside one that is taken alone, and those of that one which say too much."""
    alone = next((keyword for keyword in _ALONE if keyword in schema), None)
    if alone is None:
        return
    others = [keyword for keyword in schema if keyword in _CONDITIONS and keyword != alone]
    if "type" in others and _implies_type(schema, alone, root):
        others.remove("type")
    yield from (f"{keyword} beside {alone}" for keyword in others)
    if alone == "$ref" and not re.match(r"#(/|$)", str(schema["$ref"])):
        yield "$ref to anything but #/…"
    if alone == "allOf" and len(_list(schema["allOf"])) > 1:
        yield "allOf of more than one schema"
    if alone == "oneOf":
        yield from _overlapping(_list(schema["oneOf"]), root)


def _implies_type(schema: Schema, alone: str, root: Schema) -> bool:
    """Return whether each alternative is of the schema's own type."""
    allowed = _type_names(schema["type"])
    parts = _list(schema[alone]) if alone in ("anyOf", "oneOf", "allOf") else [{alone: schema[alone]}]
    part_types = [_types(part, root) for part in parts]
    return all(types is not None and all(_covers(allowed, name) for name in types) for types in part_types)


def _without_type(schema: Schema, implied_type: str) -> Iterator[str]:
    if "type" in schema or implied_type:
        return
    for keyword in schema:
        types, saying = _NEEDS.get(keyword, (frozenset(), frozenset()))
        if types and not saying & schema.keys():
            yield f"{keyword} without type"


def _of_numbers(schema: Schema) -> Iterator[str]:
    if "multipleOf" not in schema or not _concerns(schema, "integer", "number"):
        return
    if "number" in _type_names(schema.get("type")) or not isinstance(schema["multipleOf"], int):
        yield "multipleOf of numbers other than integers"
    yield from (f"multipleOf beside {keyword}" for keyword in schema if keyword in _NUMBERS - {"multipleOf"})


def _of_strings(schema: Schema) -> Iterator[str]:
    if has_lookaround(str(schema.get("pattern", ""))):
        yield "pattern with (?=, (?!, (?<= or (?<!"
    if not _concerns(schema, "string"):
        return
    if schema.get("format") in _FREE_FORMATS:
        yield f"format {schema['format']}"
    for keyword in ("format", "pattern"):
        others = _LENGTHS if keyword == "pattern" else _LENGTHS | {"pattern"}
        yield from (f"{other} beside {keyword}" for other in schema if keyword in schema and other in others)


def _of_objects(schema: Schema) -> Iterator[str]:
    names, patterns = _object(schema.get("properties")), _object(schema.get("patternProperties"))
    if undeclared := [name for name in _list(schema.get("required")) if name not in names]:
        yield f"required of {str(undeclared[0])[:64]!r}, which properties does not have,"
    if "propertyNames" in schema and (names or patterns):
        yield "propertyNames beside properties or patternProperties"
    if len(patterns) > 1 or (names and patterns):
        yield "patternProperties of more than one pattern, or beside properties"
    if any(map(has_lookaround, patterns)):
        yield "patternProperties with (?=, (?!, (?<= or (?<!"


def _concerns(schema: Schema, *types: str) -> bool:
    """Return whether a value of one of the types can satisfy the schema's own type."""
    own = _type_names(schema.get("type"))
    return not own or any(name in own for name in types)


@dataclass(frozen=True, slots=True)
class _Branch:
    """Hold what tells a schema of a union from the others.

    ``types`` and ``values`` None: any. ``tags``: the values that required members can have, where the schema lists
    them.
    """

    types: frozenset[str] | None
    values: frozenset[str] | None
    tags: Mapping[str, frozenset[str]]

    def excludes(self, other: _Branch) -> bool:
        """Return whether certainly no value satisfies both."""
        if self.types is not None and other.types is not None:
            pairs = [(ours, theirs) for ours in self.types for theirs in other.types]
            if not any(_covers({ours}, theirs) or _covers({theirs}, ours) for ours, theirs in pairs):
                return True
        if self.values is not None and other.values is not None:
            return not self.values & other.values
        return any(not self.tags[name] & other.tags[name] for name in self.tags.keys() & other.tags.keys())


def _overlapping(parts: Sequence[Any], root: Schema) -> Iterator[str]:
    if len(parts) > _MAX_BRANCHES:
        yield f"oneOf of more than {_MAX_BRANCHES} schemas (anyOf is enforced)"
        return
    branches = [_branch(part, root) for part in parts]
    if not all(branch.excludes(other) for branch, other in combinations(branches, 2)):
        yield "oneOf of schemas that one value can satisfy together (anyOf is enforced)"


def _branch(part: Any, root: Schema) -> _Branch:
    schema = _resolved(part, root)
    members = _object(schema.get("properties"))
    listed = {str(name): _values(_resolved(members.get(name), root)) for name in _list(schema.get("required"))}
    tags = {name: frozenset(values) for name, values in listed.items() if values is not None}
    types, values = _types(schema, root), _values(schema)
    return _Branch(
        types=None if types is None else frozenset(types),
        values=None if values is None else frozenset(values),
        tags=tags,
    )


def _resolved(schema: Any, root: Schema) -> Schema:
    """Follow local references; what cannot be followed allows everything."""
    for _ in range(_MAX_REFERENCES):
        if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
            break
        target: Any = root
        for name in schema["$ref"].removeprefix("#").split("/")[1:]:
            target = target.get(name) if isinstance(target, Mapping) else None
        schema = target
    return schema if isinstance(schema, Mapping) else {}


def _values(schema: Schema) -> set[str] | None:
    """Return the values that a schema lists, as JSON; None where it lists none."""
    if "const" in schema:
        return {json.dumps(schema["const"], sort_keys=True)}
    return {json.dumps(value, sort_keys=True) for value in _list(schema["enum"])} if "enum" in schema else None


def _types(schema: Any, root: Schema) -> set[str] | None:
    """Return the types that values of a schema have, None where that is not said."""
    schema = _resolved(schema, root)
    values = _values(schema)
    if values is not None:
        return {_type_of(json.loads(value)) for value in values}
    return _type_names(schema.get("type")) or None


def _type_names(kind: Any) -> set[str]:
    return {kind} if isinstance(kind, str) else set(map(str, _list(kind)))


def _covers(allowed: set[str], name: str) -> bool:
    return name in allowed or (name == "integer" and "number" in allowed)


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
    return "object" if isinstance(value, Mapping) else "array"


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _object(value: Any) -> Schema:
    return value if isinstance(value, Mapping) else {}
