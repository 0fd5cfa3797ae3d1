"""Read PMC's full texts in JATS: one article, a pmc-articleset (efetch), or a tar(.gz) of articles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from retrieval.corpus.document_types import document_types
from retrieval.corpus.items import (
    NO_OPTIONS,
    Item,
    Passed,
    Reading,
    ReadOptions,
    TextBuilder,
    date_number,
    unreadable_file,
)
from retrieval.corpus.readers.sections import add_sections, drop_raised_citations, licence_of, notices_of
from retrieval.gateway.importing import pmc_jats
from retrieval.gateway.importing.items import Bad, MalformedRecord, bad
from retrieval.gateway.importing.jats_text import plain_text
from retrieval.gateway.importing.sources import Source
from retrieval.gateway.records import FullText
from retrieval.passages import Document

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
                yield Passed(path.name, item.line, item.reason)
            elif isinstance(item.entry, FullText):
                yield _item(item.entry, (path, item.line), options)


def _item(article: FullText, place: tuple[Path, int], options: ReadOptions) -> Item:
    path, line = place
    try:
        root = ElementTree.fromstring(article.xml)
        if root.find("{*}body") is None:
            return Passed(path.name, line, f"PMC{article.pmcid}: no full text, the publisher keeps it back")
        return _reading(article, root, line, (options.provenance or path.name, options))
    except MalformedRecord as error:
        return Passed(path.name, line, bad(line, f"PMC{article.pmcid}: {error}").reason)


def _reading(article: FullText, root: Element, line: int, how: tuple[str, ReadOptions]) -> Reading:
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
