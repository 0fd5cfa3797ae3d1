"""Bound how deep the records of a file may be nested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from xml.etree.ElementTree import Element

# Published articles and records stay below 50; what walks a record may recurse to this depth.
MAX_DEPTH: Final = 200
TOO_DEEP: Final = f"elements are nested more than {MAX_DEPTH} deep"
MAX_JSON_DEPTH: Final = 500  # the decoder's own bound, which depends on the caller's depth, is above this
JSON_TOO_DEEP: Final = f"values are nested more than {MAX_JSON_DEPTH} deep"


def is_too_deep(root: Element) -> bool:
    """Return whether an element has more than ``MAX_DEPTH`` levels; looks at no more of them."""
    level: Sequence[Element] = (root,)
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in parent]
        if not level:
            return False
    return True


def is_json_too_deep(value: Any) -> bool:
    """Return whether a decoded value has more than ``MAX_JSON_DEPTH`` levels; looks at no more of them."""
    level: list[Any] = [value]
    for _ in range(MAX_JSON_DEPTH):
        level = [child for parent in level for child in _children(parent) if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def _children(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
