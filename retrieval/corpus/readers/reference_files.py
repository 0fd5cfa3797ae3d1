"""Read the files of reference managers, each record with its abstract: PubMed's export (.nbib), RIS and BibTeX."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from retrieval.corpus.items import (
    NO_OPTIONS,
    Item,
    ReadOptions,
    SkippedRecord,
    TextBuilder,
    document_types,
    first_date,
    paper_ids,
    unreadable_file,
)
from retrieval.corpus.readers.ncbi_xml import article_document
from retrieval.corpus.readers.plain import read_decoded
from retrieval.formats.items import medline_date
from retrieval.formats.json_values import strings
from retrieval.formats.records import Article
from retrieval.formats.tables import is_number
from retrieval.passages import Document

_MEDLINE_START: Final = re.compile(r"PMID- ?")
_RIS_START: Final = re.compile(r"TY  ?- ?")
_RIS_END: Final = re.compile(r"ER  ?-")
_DOI: Final = re.compile(r"(10\.[0-9]{4,9}/\S+?)(?: \[doi\])?", re.ASCII)
_LANGUAGE_ABSTRACT: Final = re.compile(r"^(?:Publisher|Abstract from the publisher): ")
_TYPES: Final = {
    "article": "journal article",
    "inbook": "book chapter",
    "incollection": "book chapter",
    "book": "textbook",
    "JOUR": "journal article",
    "EJOUR": "journal article",
    "CHAP": "book chapter",
    "ECHAP": "book chapter",
    "BOOK": "textbook",
    "NEWS": "news",
    "UNPB": "preprint",
    "PREP": "preprint",
}


def read_nbib(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each PubMed record, as the reader of PubMed's XML does."""
    from Bio import Medline

    for line, block in _blocks(path, _MEDLINE_START, None):
        fields: dict[str, Any] = dict(Medline.read(iter(block)))
        article = _article(fields)
        if article is None:
            yield SkippedRecord(path.name, line, "a record of PubMed with PMID and title or abstract was expected")
        else:
            yield article_document(article, line, options.provenance or path.name, options)


def _blocks(path: Path, start: re.Pattern[str], end: re.Pattern[str] | None) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, lines with their ends) of each record, which begins with the tag ``start``."""
    with unreadable_file():
        text, _ = read_decoded(path)
    block: list[str] = []
    first = 0
    for number, line in enumerate(text.split("\n"), 1):
        if start.match(line):
            if block:
                yield first, block
            block, first = [], number
        if first:
            block.append(f"{line}\n")
        if end is not None and end.match(line) and block:
            yield first, block
            block, first = [], 0
    if block:
        yield first, block


def _article(fields: dict[str, Any]) -> Article | None:
    pmid = strings(fields.get("PMID"))
    title = strings(fields.get("TI")) or strings(fields.get("BTI")) or strings(fields.get("TT"))
    abstract = strings(fields.get("AB")) or _LANGUAGE_ABSTRACT.sub("", strings(_first(fields.get("OAB"))))
    if not is_number(pmid, 9) or not (title or abstract):
        return None
    ids = [*_all(fields.get("LID")), *_all(fields.get("AID"))]
    return Article(
        pmid=int(pmid),
        xml="",
        title=title,
        abstract=abstract,
        journal=tuple(filter(None, (strings(fields.get("JT")), strings(fields.get("TA"))))),
        date=medline_date(strings(fields.get("DP"))),
        authors=tuple(dict.fromkeys((*_all(fields.get("AU")), *_all(fields.get("CN"))))) or _all(fields.get("FAU")),
        types=_all(fields.get("PT")),
        mesh=(),
        mesh_major=(),
        keywords=_all(fields.get("OT")),
        languages=_all(fields.get("LA")),
        doi=next((found[1] for one in ids if (found := _DOI.fullmatch(one))), ""),
        pmc=strings(fields.get("PMC")),
    )


def _all(value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(text for one in values if (text := strings(one)))


def _first(value: object) -> str:
    return next(iter(_all(value)), "")


def read_ris(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each reference that has a title or an abstract."""
    import rispy

    for line, block in _blocks(path, _RIS_START, _RIS_END):
        try:
            (fields,) = rispy.loads("".join(block) if _RIS_END.match(block[-1]) else "".join((*block, "ER  - \n")))
        except Exception as error:  # whatever the library raises for a record that it cannot read
            yield SkippedRecord(path.name, line, f"no record of RIS ({type(error).__name__})")
            continue
        yield _reference_item((path.name, line), "ris", dict(fields), options)


def read_bib(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each entry that has a title or an abstract; formulas stay as LaTeX writes them."""
    import bibtexparser
    from bibtexparser.middlewares import LatexDecodingMiddleware
    from bibtexparser.model import DuplicateBlockKeyBlock, Entry

    with unreadable_file():
        text, _ = read_decoded(path)
    decoding = [LatexDecodingMiddleware()]
    library = bibtexparser.parse_string(text, append_middleware=decoding)
    blocks: list[Any] = [*library.entries, *library.failed_blocks]
    for block in sorted(blocks, key=lambda one: one.start_line or 0):
        place = (path.name, (block.start_line or 0) + 1)
        again: Any = block
        if isinstance(block, DuplicateBlockKeyBlock):  # another work, as a rule, under a key that is there already
            again = next(iter(bibtexparser.parse_string(block.raw or "", append_middleware=decoding).entries), None)
        if isinstance(again, Entry):
            yield _reference_item(place, "bib", _bib_fields(again), options)
        else:
            yield SkippedRecord(*place, f"no entry of BibTeX: {type(block.error).__name__}")


def _bib_fields(entry: Any) -> dict[str, Any]:
    """Return the fields of an entry under the names that records of RIS have."""
    found = {name.lower(): " ".join(str(field.value).split()) for name, field in entry.fields_dict.items()}
    pmid = found.get("pmid", "") or (found.get("eprint", "") if found.get("eprinttype") == "pubmed" else "")
    return {
        "title": found.get("title", ""),
        "abstract": found.get("abstract", ""),
        "doi": found.get("doi", ""),
        "accession_number": f"PMID:{pmid}",
        "urls": [found.get("url", "")],
        "authors": re.split(r"\s+and\s+", found.get("author", "")),
        "journal_name": found.get("journal", "") or found.get("journaltitle", "") or found.get("booktitle", ""),
        "date": found.get("date", "") or found.get("year", ""),
        "type_of_reference": entry.entry_type.lower(),
    }


def _reference_item(place: tuple[str, int], kind: str, fields: dict[str, Any], options: ReadOptions) -> Item:
    """Return the document of a reference at (file, line)."""
    title = strings(_named(fields, "title", "primary_title", "translated_title"))
    abstract = str(_named(fields, "abstract", "notes_abstract")).strip()
    if not title and not abstract:
        return SkippedRecord(*place, "a reference with a title or an abstract was expected")
    doi = found[1] if (found := _DOI.search(f"{strings(fields.get('doi'))} ")) else ""
    pmid = next((number for key in ("accession_number", "custom2") if (number := _pmid(fields, key))), "")
    document_id, address = paper_ids("", pmid, doi)
    if not document_id:
        document_id = f"{kind.upper()}:{hashlib.sha256(f'{title} {abstract}'.encode()).hexdigest()[:16]}"
        address = next((url for url in _all(fields.get("urls")) if url.startswith(("http://", "https://"))), "")
    document = Document(
        document_id=document_id,
        title=title,
        source=kind,
        url=address,
        authors=_all(_named(fields, "authors", "first_authors")),
        journal=strings(_named(fields, "journal_name", "secondary_title", "alternate_title3", "alternate_title1")),
        date=first_date(strings(str(_named(fields, "date", "publication_year", "year")))),
        types=document_types([_TYPES.get(strings(fields.get("type_of_reference")), "")]),
        licence=options.licence,
        provenance=options.provenance or place[0],
        retrieved=options.retrieved,
    )
    text = TextBuilder()
    text.add(abstract)
    return text.reading(document, place[1])


def _named(fields: dict[str, Any], *names: str) -> Any:
    return next((value for name in names if (value := fields.get(name))), "")


def _pmid(fields: dict[str, Any], key: str) -> str:
    """Return a PMID where the record says that its number is PubMed's."""
    number = strings(fields.get(key)).removeprefix("PMID:").strip()
    databases = " ".join(str(fields.get(name, "")) for name in ("name_of_database", "database_provider")).lower()
    is_pubmed = "pubmed" in databases or "medline" in databases or "PMID" in str(fields.get(key, ""))
    return number if is_pubmed and is_number(number) else ""
