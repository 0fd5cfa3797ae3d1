"""Replace what is no character in text that comes from elsewhere, so that every text can be encoded."""

from __future__ import annotations

import re
from typing import Final

_SUSPECT: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
# A pair stands for one character; a lone half for none; any other escape is passed over as a whole, so that a
# backslash that is itself escaped begins nothing.
_PARTS: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.|(?P<raw>[\ud800-\udfff])",
    re.DOTALL,
)


def whole_characters(json_text: str) -> str:
    r"""Return JSON text in which no string has half of a character: a lone surrogate becomes ``\ufffd``."""
    if _SUSPECT.search(json_text) is None:
        return json_text
    return _PARTS.sub(_replacement, json_text)


def _replacement(found: re.Match[str]) -> str:
    if found["raw"]:
        return "\ufffd"
    return "\\ufffd" if found["lone"] else found[0]
