"""Read PMC's full texts in JATS: one article, a pmc-articleset (efetch), or a tar(.gz) of articles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from retrieval.corpus.items import (
    NO_OPTIONS,
    Item,
    ParsedDocument,
    ReadOptions,
    SkippedRecord,
    TextBuilder,
    date_number,
    document_types,
    path_of,
    unreadable_file,
)
from retrieval.formats import pmc_jats
from retrieval.formats.items import Bad, MalformedRecord, bad
from retrieval.formats.pmc_jats import local_name, plain_text
from retrieval.formats.records import FullText
from retrieval.formats.sources import Source
from retrieval.passages import Document

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
        children = list(parent)
        kept = [child for child in children if not _is_raised_citation(child)]
        if len(kept) < len(children):
            _keep_tails(parent, children)
            parent[:] = kept


def _keep_tails(parent: Element, children: list[Element]) -> None:
    """Move the text behind each raised citation to what stays before it: ElementTree removes it with the element."""
    before: Element | None = None
    for child in children:
        if not _is_raised_citation(child):
            before = child
        elif before is None:
            parent.text = (parent.text or "") + (child.tail or "")
        else:
            before.tail = (before.tail or "") + (child.tail or "")


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


ABSTRACT: Final = "Abstract"
_NOTICES: Final = frozenset(("retraction notice", "published erratum", "expression of concern"))
_FLOATS: Final = "Figures and tables"


def read(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each article, its abstract whole.

    Back matter (acknowledgements, references, appendices) is left out. An article that NCBI sends without body, because
    its publisher does not allow it, is yielded as ``Passed``.
    """
    with unreadable_file():
        for item in pmc_jats.read(Source(path)):
            if isinstance(item, Bad):
                yield SkippedRecord(path.name, item.line, item.reason)
            elif isinstance(item.entry, FullText):
                yield _item(item.entry, (path, item.line), options)


def _item(article: FullText, position: tuple[Path, int], options: ReadOptions) -> Item:
    path, line = position
    try:
        root = ElementTree.fromstring(article.xml)
        if root.find("{*}body") is None:
            return SkippedRecord(path.name, line, f"PMC{article.pmcid}: no full text, the publisher keeps it back")
        return _reading(article, root, line, (options.provenance or path.name, options))
    except MalformedRecord as error:
        return SkippedRecord(path.name, line, bad(line, f"PMC{article.pmcid}: {error}").reason)


def _reading(article: FullText, root: Element, line: int, how: tuple[str, ReadOptions]) -> ParsedDocument:
    provenance, options = how
    meta = root.find("{*}front/{*}article-meta")
    kinds = document_types([root.get("article-type", "")])
    # Some publishers put into the notice itself the relation that belongs in the article it refers to.
    retracted_by, corrected_by = ((), ()) if _NOTICES.intersection(kinds) else notices_of(meta)
    document = Document(
        document_id=f"PMC:{article.pmcid}",
        title=article.title,
        source="pmc",
        url=f"https://pmc.ncbi.nlm.nih.gov/articles/PMC{article.pmcid}/",
        authors=article.authors,
        journal=article.journal[0] if article.journal else "",
        date=date_number(article.date),
        types=document_types([root.get("article-type", "")], retracted=bool(retracted_by)),
        licence=licence_of(meta) or options.licence,
        provenance=provenance,
        retrieved=options.retrieved,
        retracted_by=retracted_by,
        corrected_by=corrected_by,
        record=f"PMID:{article.pmid}" if article.pmid else "",
    )
    drop_raised_citations(root)
    text = TextBuilder()
    text.add(_abstract(meta), ABSTRACT)
    body = root.find("{*}body")
    if body is not None:
        add_sections(text, body)
    floats = root.find("{*}floats-group")
    if floats is not None:
        text.add(plain_text(floats), _FLOATS)
    return text.reading(document, line)


def _abstract(meta: Element | None) -> str:
    """Return the main abstract, else the first of the others, with its headings on lines of their own."""
    found = [] if meta is None else meta.findall("{*}abstract")
    proper = [abstract for abstract in found if not abstract.get("abstract-type")] or found[:1]
    return "\n".join(filter(None, map(plain_text, proper)))
