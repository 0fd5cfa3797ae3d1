"""Refuse XML whose document type declares anything of its own: entities above all, which can grow or name other files.

expat itself reads what comes before the root element, so that neither the encoding nor a quote or comment hides a
declaration. Text that is no XML passes: what to make of it is its reader's matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from xml.parsers import expat

REASON: Final = "the XML declares entities or a document type of its own, which is never followed"
_MAX_PROLOG: Final = 1024 * 1024
_BLANK: Final = b" \t\r\n\0\xef\xbb\xbf\xff\xfe"


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
