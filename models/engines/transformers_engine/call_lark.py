"""Rewrite the grammar of free text with calls, a structural tag of xgrammar, as Lark of llguidance.

Under Lark it is ready in milliseconds whatever the vocabulary, and llguidance knows which tokens it forces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_RULES: Final = """%llguidance {{}}
start: {first}(opened)* TEXT
opened: head CALL {end}
head[lazy]: TEXT {opener}
TEXT: /(.|\\n)*/
CALL: /{call}/
"""


def calls_as_lark(spec: str) -> str | None:
    """Return the Lark of a structural tag that ``models.decoding.grammar`` builds for calls, None for any other."""
    try:
        tag, is_first = _call_tag(json.loads(spec)["format"])
        return None if tag is None else _rules(tag, is_first)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None  # xgrammar says what is wrong with it


def _rules(tag: Mapping[str, Any], is_first: bool) -> str:
    opener, end = json.dumps(tag["begin"]), _end(tag["end"])
    return _RULES.format(
        first=f"{opener} CALL {end} " if is_first else "",
        end=end,
        opener=opener,
        call=_in_slashes(tag["content"]["pattern"]),
    )


def _call_tag(form: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, bool]:
    """Return the tag of a call, and whether the output must begin with one."""
    if form.get("type") == "sequence" and len(form["elements"]) == 2:
        first, free = form["elements"]
        tag, _ = _call_tag(free)
        return (tag, True) if tag == first else (None, False)
    if form.get("type") != "triggered_tags" or form.keys() != {"type", "triggers", "tags"} or len(form["tags"]) != 1:
        return None, False
    tag = form["tags"][0]
    is_call = tag["content"]["type"] == "regex" and form["triggers"] == [tag["begin"]]
    return (tag if is_call else None), False


def _end(end: Any) -> str:
    return json.dumps(end) if isinstance(end, str) else f"<[{end['token']}]>"


def _in_slashes(pattern: str) -> str:
    """Escape the slashes of a regular expression that are not escaped yet."""
    out, position = [], 0
    while position < len(pattern):
        width = 2 if pattern[position] == "\\" else 1
        part = pattern[position : position + width]
        out.append("\\/" if part == "/" else part)
        position += width
    return "".join(out)
