"""Extract the text of a JATS XML element, one line for each paragraph, heading, caption and table row."""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from retrieval.gateway.importing.items import MalformedRecord

_MAX_DEPTH: Final = 200
_BREAK: Final = "\0"  # in no XML document
_BLOCKS: Final = frozenset((
    "abstract", "ack", "app", "boxed-text", "caption", "def-item", "disp-formula", "disp-quote", "fig", "fn", "list",
    "list-item", "p", "sec", "speech", "statement", "subtitle", "supplementary-material", "table-wrap",
    "table-wrap-foot", "title", "tr", "trans-abstract", "verse-line",
))  # fmt: skip
# References have records of their own; the others are not prose.
_LEFT_OUT: Final = frozenset(("ref-list", "tex-math", "object-id", "permissions", "processing-meta", "alt-text"))
_CELLS: Final = frozenset(("td", "th"))
_SPACED: Final = frozenset(("label", "term", "def", "break", "ext-link", "email"))


def plain_text(element: Element | None, left_out: frozenset[str] = frozenset()) -> str:
    """Return the text of an element, with the cells of a table row separated by " | ".

    References, LaTeX and ``left_out`` elements are dropped.

    Raises:
        MalformedRecord: elements are nested deeper than in any article.
    """
    if element is None:
        return ""
    pieces: list[str] = []
    _walk(element, pieces, _LEFT_OUT | left_out, 0)
    lines = (" ".join(line.split()).strip("| ") for line in "".join(pieces).split(_BREAK))
    return "\n".join(line for line in lines if line)


def local_name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _walk(element: Element, pieces: list[str], left_out: frozenset[str], depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise MalformedRecord(f"elements are nested more than {_MAX_DEPTH} deep")
    if element.text:
        pieces.append(element.text)
    for child in element:
        name = local_name(child)
        if name not in left_out:
            around = _BREAK if name in _BLOCKS else " | " if name in _CELLS else " " if name in _SPACED else ""
            pieces.append(around)
            _walk(child, pieces, left_out, depth + 1)
            pieces.append(around if around != " | " else " ")
        if child.tail:
            pieces.append(child.tail)
