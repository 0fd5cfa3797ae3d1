"""Decide by the attributes of a file whether it passes a filter, as OpenAI's vector stores have them. Pure."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from server.errors import RequestError

Value = str | bool | int | float
Attributes = Mapping[str, Value]
Filter = Callable[[Attributes], bool]
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_TYPES: Final = ("eq", "ne", *_ORDERS, "in", "nin", "and", "or")
_MAX_PARTS: Final = 64
_MAX_DEPTH: Final = 8
_MAX_VALUES: Final = 1000
_MAX_KEY: Final = 64


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Compare one attribute; one that is missing, or of another type, is not equal and has no order."""

    kind: str
    key: str
    values: tuple[Value, ...]

    def __call__(self, attributes: Attributes) -> bool:
        own = attributes.get(self.key)
        if self.kind in _ORDERS:
            (value,) = self.values
            return own is not None and _comparable(own, value) and _ORDERS[self.kind](own, value)
        is_one = own is not None and any(_comparable(own, value) and own == value for value in self.values)
        return is_one == (self.kind in ("eq", "in"))


@dataclass(frozen=True, slots=True)
class _Compound:
    is_and: bool
    parts: tuple[Filter, ...]

    def __call__(self, attributes: Attributes) -> bool:
        return (all if self.is_and else any)(part(attributes) for part in self.parts)


def parse_filter(value: object, place: str = "filters", depth: int = 0) -> Filter:
    """Return the filter that a request has at ``place``.

    Raises:
        RequestError: it is none, or larger than is served; ``param`` names the field.
    """
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or kind not in _TYPES:
        _refuse(f"{place}.type", f"one of {', '.join(_TYPES)}")
    fields = {"type", "filters"} if kind in ("and", "or") else {"type", "key", "value"}
    for name in sorted(map(str, fields ^ value.keys())):
        _refuse(f"{place}.{name[:40]}", "field required" if name in fields else "there is no such field")
    if kind in ("and", "or"):
        parts = value["filters"]
        if not isinstance(parts, list) or not 0 < len(parts) <= _MAX_PARTS or depth >= _MAX_DEPTH:
            _refuse(f"{place}.filters", f"a list of 1 to {_MAX_PARTS} filters, {_MAX_DEPTH} deep at most")
        inner = (parse_filter(part, f"{place}.filters[{at}]", depth + 1) for at, part in enumerate(parts))
        return _Compound(kind == "and", tuple(inner))
    if not isinstance(value["key"], str) or not 0 < len(value["key"]) <= _MAX_KEY:
        _refuse(f"{place}.key", f"the name of an attribute, 1 to {_MAX_KEY} characters")
    return _Comparison(str(kind), value["key"], _values(str(kind), value["value"], f"{place}.value"))


def _values(kind: str, value: object, place: str) -> tuple[Value, ...]:
    if kind in ("in", "nin"):
        if not isinstance(value, list) or len(value) > _MAX_VALUES:
            _refuse(place, f"a list of at most {_MAX_VALUES} texts or numbers")
        return tuple(_checked(one, place) for one in value)
    one = _checked(value, place)
    if kind in _ORDERS and isinstance(one, bool):
        _refuse(place, "a text or a number")
    return (one,)


def _checked(value: object, place: str) -> Value:
    if not isinstance(value, str | bool | int | float):
        _refuse(place, "a text, a number, true or false")
    return value


def _comparable(own: Value, value: Value) -> bool:
    kinds = [str if isinstance(one, str) else bool if isinstance(one, bool) else float for one in (own, value)]
    return kinds[0] is kinds[1]


def _refuse(place: str, rule: str) -> NoReturn:
    raise RequestError(f"{place}: {rule}", param=place)
