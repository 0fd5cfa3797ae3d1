"""Read PubMed as one JSON object {pmid: {"d": "20071115", "t": title, "a": abstract, "m": MeSH}}.

The files beside NCBI's MedCPT embeddings have this form, with more than a gigabyte each.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from retrieval.corpus.items import (
    NO_OPTIONS,
    Item,
    ReadOptions,
    SkippedRecord,
    TextBuilder,
    date_number,
    unreadable_file,
)
from retrieval.formats.json_stream import JsonStream
from retrieval.formats.sources import Source
from retrieval.passages import Document

_MAX_RECORD: Final = 2**20


def read(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each PMID.

    ``m`` is left out: MeSH headings are not words of the article.
    """
    with unreadable_file():
        source = Source(path)
        for line, pmid, record in JsonStream(source, source.chunks(), max_value=_MAX_RECORD).members():
            yield _item(path, line, (pmid, record), options)


def _item(path: Path, line: int, member: tuple[str, Any], options: ReadOptions) -> Item:
    pmid, record = member
    if not (pmid.isascii() and pmid.isdigit()) or not 0 < int(pmid) < 10**12:
        return SkippedRecord(path.name, line, f"{pmid[:40]!r} is no PMID")
    if not isinstance(record, dict):
        return SkippedRecord(path.name, line, f"PMID {pmid}: an object with d, t, a and m was expected")
    day, title, abstract = (record.get(name) or "" for name in "dta")
    if not all(isinstance(value, str) for value in (day, title, abstract)) or not (title.strip() or abstract.strip()):
        return SkippedRecord(path.name, line, f"PMID {pmid}: neither title nor abstract")
    number = int(pmid)
    document = Document(
        document_id=f"PMID:{number}",
        title=" ".join(title.split()),
        source="pubmed",
        url=f"https://pubmed.ncbi.nlm.nih.gov/{number}/",
        date=date_number(day),
        licence=options.licence,
        provenance=options.provenance or path.name,
        retrieved=options.retrieved,
    )
    text = TextBuilder()
    text.add(abstract.strip())
    return text.reading(document, line)
