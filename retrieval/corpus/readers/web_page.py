"""Read web pages in HTML: their text in sections, without scripts, menus and page frames."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from retrieval.corpus.items import (
    NO_OPTIONS,
    Item,
    ReadOptions,
    TextBuilder,
    first_date,
    paper_ids,
    path_of,
    sha256_of,
    unreadable_file,
)
from retrieval.corpus.readers.plain import UTF_8, file_bytes
from retrieval.errors import DocumentUnreadable
from retrieval.formats.items import MalformedRecord
from retrieval.formats.notation import without_marks
from retrieval.formats.pmc_jats import local_name, plain_text
from retrieval.passages import Document

_LEFT_OUT: Final = (
    "script", "style", "noscript", "template", "nav", "header", "footer", "aside", "form", "button", "svg", "iframe",
    "object", "select", "dialog",
)  # fmt: skip
_HEADINGS: Final = ("h1", "h2", "h3", "h4", "h5", "h6")
_NOTHING: Final[frozenset[str]] = frozenset()


def read(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield one document; headings are its sections, and what the page tells of its article (citation_…) is kept.

    Raises:
        DocumentUnreadable: the page has no words, or is nested too deep.
    """
    from lxml import etree, html

    with unreadable_file():
        data = file_bytes(path)
    if not data.strip():
        raise DocumentUnreadable(f"{path}: the file is empty: choose one that has text")
    try:
        parser = html.HTMLParser(encoding=_encoding(data), remove_comments=True, remove_pis=True)
        root = html.document_fromstring(data, parser=parser)
    except (etree.LxmlError, ValueError) as error:
        raise DocumentUnreadable(f"{path}: no HTML that can be read ({type(error).__name__})") from None
    about = _about(root)
    title = about.get("citation_title", "") or " ".join((root.findtext(".//title") or "").split())
    etree.strip_elements(root, *_LEFT_OUT, with_tail=False)
    text = TextBuilder()
    try:
        first = _add_sections(text, _main(root))
    except MalformedRecord as error:
        raise DocumentUnreadable(f"{path}: {error}") from None
    if not len(text):
        raise DocumentUnreadable(f"{path}: the page holds no words")
    if title == path.stem:  # as converters name a page after its file
        title = first
    yield text.reading(_document(path, about, (title or first or path.stem), options))


def _encoding(data: bytes) -> str | None:
    """Return UTF-8 where the bytes are; else the page says, or its parser guesses."""
    try:
        data.decode(UTF_8)
    except UnicodeDecodeError:
        return None
    return UTF_8


def _about(root: Any) -> dict[str, str]:
    """Return the page's statements about its article by name; authors are joined with a line end."""
    found: dict[str, str] = {}
    for meta in root.iter("meta"):
        name, content = (meta.get("name") or "").lower(), " ".join((meta.get("content") or "").split())
        if name.startswith("citation_") and content:
            found[name] = f"{found[name]}\n{content}" if name == "citation_author" and name in found else content
    return found


def _main(root: Any) -> Any:
    """Return the part that the page marks as its content, the body where it marks none or several."""
    for name in ("main", "article"):
        marked = list(root.iter(name))
        if len(marked) == 1 and (marked[0].text_content() or "").strip():
            return marked[0]
    body = root.find("body")
    return root if body is None else body


def _add_sections(text: TextBuilder, main: Any) -> str:
    """Add the text under each heading, and return the first heading."""
    path: list[str] = []
    first = ""
    for heading, words in _parts(main):
        if heading is not None:
            level = int(local_name(heading)[1])
            title = " ".join(plain_text(heading).split())
            first = first or title
            path = [*path[: level - 1], *[""] * (level - 1 - len(path)), title]
        # The page's own name is no section.
        text.add(words, path_of(path[1:] if path and path[0] == first else path))
    return first


def _parts(main: Any) -> Iterator[tuple[Any, str]]:
    """Yield (heading or None, text behind it): each heading leaves a mark in the tree, at which the text is cut."""
    headings = list(main.iter(*_HEADINGS))
    copies = []
    for heading in headings:
        copies.append(_copied(heading))
        for child in list(heading):
            heading.remove(child)
        heading.text = _CUT
    for element in main.iter():
        element.text, element.tail = (
            without_marks(words) if words else words for words in (element.text, element.tail)
        )
    pieces = plain_text(main, _NOTHING).split(_CUT)
    yield None, pieces[0].strip()
    for copy, piece in zip(copies, pieces[1:], strict=False):
        yield copy, piece.strip()


def _copied(heading: Any) -> Any:
    from copy import deepcopy

    copy = deepcopy(heading)
    copy.tail = None
    return copy


# A private character, which no page means anything by.
_CUT: Final = "\ue0c7"


def _document(path: Path, about: dict[str, str], title: str, options: ReadOptions) -> Document:
    document_id, address = paper_ids("", about.get("citation_pmid", ""), about.get("citation_doi", ""))
    date = about.get("citation_publication_date", "") or about.get("citation_date", "")
    return Document(
        document_id=f"sha256:{sha256_of(path)}",
        title=title,
        source="html",
        url=address,
        authors=tuple(dict.fromkeys(filter(None, about.get("citation_author", "").split("\n")))),
        journal=about.get("citation_journal_title", ""),
        date=first_date(date),
        licence=options.licence,
        provenance=options.provenance or str(path),
        retrieved=options.retrieved,
        record=document_id if document_id.startswith("PMID:") else "",
    )
