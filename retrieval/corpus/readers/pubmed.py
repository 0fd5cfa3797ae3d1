"""Read PubMed's XML: baseline files, update files and efetch replies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from retrieval.corpus.items import (
    NO_OPTIONS,
    Item,
    ParsedDocument,
    ReadOptions,
    SkippedRecord,
    TextBuilder,
    Withdrawn,
    date_number,
    document_types,
    unreadable_file,
)
from retrieval.formats import pubmed_xml
from retrieval.formats.items import Bad
from retrieval.formats.records import Article, Removal
from retrieval.formats.sources import Source
from retrieval.passages import Document

_BOOK: Final = re.compile(r"\s*<PubmedBookArticle\b")
_RIGHTS: Final = re.compile(r"<CopyrightInformation>([^<]{1,300})")


def read(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each article and book chapter, ``Withdrawn`` for each PMID of a DeleteCitation."""
    with unreadable_file():
        for item in pubmed_xml.read(Source(path)):
            if isinstance(item, Bad):
                yield SkippedRecord(path.name, item.line, item.reason)
            elif isinstance(item.entry, Removal):
                yield Withdrawn(f"PMID:{item.entry.uid}")
            elif isinstance(item.entry, Article):
                yield reading_of(item.entry, item.line, options.provenance or path.name, options)


def reading_of(article: Article, line: int, provenance: str, options: ReadOptions) -> ParsedDocument:
    """Convert an article, with the abstract as one part and its labels in capitals before their paragraphs."""
    book = ("book chapter",) if _BOOK.match(article.xml) else ()
    rights = _RIGHTS.search(article.xml)
    document = Document(
        document_id=f"PMID:{article.pmid}",
        title=article.title,
        source="pubmed",
        url=f"https://pubmed.ncbi.nlm.nih.gov/{article.pmid}/",
        authors=article.authors,
        journal=article.journal[0] if article.journal else "",
        date=date_number(article.date),
        types=document_types((*article.types, *book), retracted=bool(article.retracted_by)),
        licence=" ".join(rights[1].split()) if rights else options.licence,
        provenance=provenance,
        retrieved=options.retrieved,
        retracted_by=article.retracted_by,
        corrected_by=article.corrected_by,
    )
    text = TextBuilder()
    text.add(article.abstract)
    return text.reading(document, line)
