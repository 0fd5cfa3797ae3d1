"""Bound what text from elsewhere may hold: no declared entities, no deep nesting, no half of a character.

expat itself reads what comes before the root element, so that neither the encoding nor a quote or comment hides a
declaration: of entities above all, which can grow or name other files. Text that is no XML passes: what to make of it
is its reader's matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final
from xml.etree.ElementTree import Element
from xml.parsers import expat

REASON: Final = "the XML declares entities or a document type of its own, which is never followed"
_MAX_PROLOG: Final = 1024 * 1024
_BLANK: Final = b" \t\r\n\0\xef\xbb\xbf\xff\xfe"
# Published articles and records stay below 50; what walks a record may recurse to this depth.
MAX_DEPTH: Final = 200
TOO_DEEP: Final = f"elements are nested more than {MAX_DEPTH} deep"
MAX_JSON_DEPTH: Final = 500  # the decoder's own bound, which depends on the caller's depth, is above this
JSON_TOO_DEEP: Final = f"values are nested more than {MAX_JSON_DEPTH} deep"
_SUSPECT: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
# A pair stands for one character; a lone half for none; any other escape is passed over as a whole, so that a
# backslash that is itself escaped begins nothing.
_PARTS: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.|(?P<raw>[\ud800-\udfff])",
    re.DOTALL,
)


class DeclaredXml(ValueError):
    """Signal XML with declarations of its own."""


class _RootReached(Exception):
    """Signal that the root element begins, before which all declarations stand."""


def refuse_declarations(chunks: Iterable[bytes], encoding: str | None = None) -> None:
    """Check the beginning of a file, as far as its root element.

    ``encoding`` None is what the file itself says.

    Raises:
        DeclaredXml: it has an internal document type, or the root does not begin within 1 MiB.
    """
    parser = _parser(encoding)
    seen = 0
    for chunk in chunks:
        if not seen and not chunk.lstrip(_BLANK).startswith(b"<"):
            return
        try:
            parser.Parse(chunk, False)
        except (_RootReached, expat.ExpatError):
            return
        seen += len(chunk)
        if seen > _MAX_PROLOG:
            raise DeclaredXml(f"no element begins within {_MAX_PROLOG} bytes")


def refuse_declared(xml: str | bytes) -> None:
    """Check a whole document.

    Raises:
        DeclaredXml: as ``refuse_declarations``.
    """
    if isinstance(xml, str):
        refuse_declarations([xml.encode("utf-8", "replace")], "utf-8")
    else:
        refuse_declarations([xml])


def _parser(encoding: str | None) -> expat.XMLParserType:
    parser = expat.ParserCreate(encoding)
    parser.StartDoctypeDeclHandler = _doctype
    parser.EntityDeclHandler = _declaration
    parser.StartElementHandler = _root
    return parser


def _doctype(_name: str, _system: str | None, _public: str | None, has_internal: int) -> None:
    if has_internal:
        raise DeclaredXml(REASON)


def _declaration(*_: object) -> None:
    raise DeclaredXml(REASON)


def _root(*_: object) -> None:
    raise _RootReached


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


def whole_characters(json_text: str) -> str:
    r"""Return JSON text in which no string has half of a character: a lone surrogate becomes ``\ufffd``."""
    if _SUSPECT.search(json_text) is None:
        return json_text
    return _PARTS.sub(_replacement, json_text)


def _replacement(found: re.Match[str]) -> str:
    if found["raw"]:
        return "\ufffd"
    return "\\ufffd" if found["lone"] else found[0]
