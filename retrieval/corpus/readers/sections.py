"""Convert sections of JATS and BITS bodies to parts of a text, each under the path of its headings."""

from __future__ import annotations

import re
from typing import Final
from xml.etree.ElementTree import Element

from retrieval.corpus.items import TextBuilder, path_of
from retrieval.gateway.importing.items import MalformedRecord
from retrieval.gateway.importing.jats_text import local_name, plain_text

_MAX_DEPTH: Final = 50
_HEADINGS: Final = frozenset(("title", "label", "sec-meta", "subtitle"))
_LEFT_OUT: Final = frozenset(("ref-list", "fn-group", "glossary-ref"))
_ONLY_MARKS: Final = re.compile(r"[\s,;\-–—()\[\]]*")
_HREF: Final = "{http://www.w3.org/1999/xlink}href"
_MAX_LICENCE: Final = 200


def add_sections(
    text: TextBuilder, parent: Element, path: tuple[str, ...] = (), *, bold_headings: bool = False
) -> None:
    """Add the words of ``parent`` in their order, with tables and figures under their labels.

    Letters and numbers stay as printed. ``bold_headings``: a paragraph entirely in bold is the heading of what follows,
    as in StatPearls.

    Raises:
        MalformedRecord: sections are nested deeper than in any article.
    """
    if len(path) > _MAX_DEPTH:
        raise MalformedRecord(f"sections are nested more than {_MAX_DEPTH} deep")
    blocks: list[str] = []
    here = path

    def close() -> None:
        text.add("\n".join(blocks), path_of(here))
        blocks.clear()

    for child in parent:
        name = local_name(child)
        if name in _HEADINGS or name in _LEFT_OUT:
            continue
        if name == "sec":
            close()
            add_sections(text, child, (*path, heading_of(child)), bold_headings=bold_headings)
        elif bold_headings and (heading := _bold_heading(child)):
            close()
            here = (*path, heading)
        elif words := plain_text(child):
            blocks.append(words)
    close()


def heading_of(section: Element) -> str:
    return " ".join(plain_text(section.find("{*}title")).split())


def drop_raised_citations(root: Element) -> None:
    """Remove superscripts that contain only citations.

    Joined to the word before, they would read as part of it or of a number ("p5312"). Citations in brackets stay as
    printed.
    """
    for parent in list(root.iter()):
        for child in list(parent):
            if _is_raised_citation(child):
                _remove(parent, child)


def licence_of(meta: Element | None) -> str:
    """Return the address of an article's licence, else the start of its text, "" where it names none."""
    licence = None if meta is None else meta.find("{*}permissions/{*}license")
    if licence is None:
        return ""
    address = licence.get(_HREF) or next((a for e in licence.iter() if (a := e.get(_HREF, ""))), "")
    return address.strip() or " ".join(plain_text(licence).split())[:_MAX_LICENCE]


def notices_of(meta: Element | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the notices that an article names about itself: (retracted by, corrected by)."""
    related = [] if meta is None else meta.findall("{*}related-article")
    kinds = {"retraction-forward": 0, "correction-forward": 1, "concern-forward": 1, "object-of-concern-forward": 1}
    found: tuple[dict[str, None], dict[str, None]] = ({}, {})
    for article in related:
        kind = kinds.get(article.get("related-article-type", ""))
        if kind is not None and (address := article.get(_HREF, "").strip()):
            found[kind][address] = None
    return tuple(found[0]), tuple(found[1])


def _bold_heading(child: Element) -> str:
    if local_name(child) != "p" or (child.text or "").strip() or len(child) != 1:
        return ""
    only = child[0]
    if local_name(only) != "bold" or (only.tail or "").strip():
        return ""
    return " ".join("".join(only.itertext()).split()).rstrip(":")


def _is_raised_citation(element: Element) -> bool:
    name = local_name(element)
    if name == "xref":
        return element.get("ref-type") == "bibr" and not (element.text or "").strip() and _all_raised(element)
    return name == "sup" and len(element) > 0 and _only_citations(element)


def _all_raised(xref: Element) -> bool:
    return len(xref) > 0 and all(local_name(child) == "sup" and not (child.tail or "").strip() for child in xref)


def _only_citations(raised: Element) -> bool:
    between = (raised.text or "") + "".join(child.tail or "" for child in raised)
    citations = (local_name(child) == "xref" and child.get("ref-type") == "bibr" for child in raised)
    return all(citations) and _ONLY_MARKS.fullmatch(between) is not None


def _remove(parent: Element, child: Element) -> None:
    """Remove an element but keep the text behind it, which ElementTree would remove too."""
    at = list(parent).index(child)
    tail = child.tail or ""
    if at:
        parent[at - 1].tail = (parent[at - 1].tail or "") + tail
    else:
        parent.text = (parent.text or "") + tail
    parent.remove(child)
