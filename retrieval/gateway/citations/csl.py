"""Turn a citation into an item of CSL-JSON, which styles and reference managers read. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from retrieval.formats.records import Article
from retrieval.gateway.citations.citation import Book, Citation, Person
from retrieval.gateway.citations.pubmed_citation import citation_of, element_of
from retrieval.references.item import PUBMED, person, plain_title

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# "2016 Mar 5", "2016 Mar", "2016"; a range or a season ("1998 Dec-1999 Jan", "2000 Spring") counts for its year.
_DATE: Final = re.compile(rf"([12][0-9]{{3}})(?: ({'|'.join(_MONTHS)})(?: ([0-9]{{1,2}}))?)?")
_YEAR: Final = re.compile(r"\b[12][0-9]{3}\b")
_NO_TITLE: Final = "[Not Available]."
# Notices of other records that a reader of the reference has to know.
_AGAINST: Final = {
    "RetractionIn": "Retracted",
    "RetractedandRepublishedIn": "Retracted and republished",
    "PartialRetractionIn": "Retracted in part",
    "ExpressionOfConcernIn": "Expression of concern",
}


def article_item(article: Article) -> dict[str, Any]:
    """Return the item of a stored article or book chapter: of its own record, never of its reference list.

    Raises:
        GatewayDataError: the stored text is not a PubMed element.
    """
    return citation_item(citation_of(element_of(article)))


def citation_item(citation: Citation) -> dict[str, Any]:
    """Return the item of a citation, with what is known of it alone."""
    item = _chapter(citation, citation.book) if citation.book else _journal_article(citation)
    item["DOI"], item["PMCID"] = citation.identifier("doi"), citation.identifier("pmc")
    item["author"] = _names(citation.authors)
    item["language"] = citation.languages[0] if citation.languages else ""
    item["note"] = "; ".join(dict.fromkeys(_against(citation)))
    identity = {"id": f"pmid:{citation.uid}", "PMID": citation.uid, "URL": f"{PUBMED}{citation.uid}/"}
    if citation.uid.startswith("PMC"):
        identity = {"id": citation.uid, "PMCID": citation.uid, "PMID": citation.identifier("pmid")}
    return {name: value for name, value in {**item, **identity}.items() if value}


def _journal_article(citation: Citation) -> dict[str, Any]:
    journal = citation.journal
    is_electronic = citation.model.startswith("Electronic-") or citation.publication_status == "aheadofprint"
    date = (citation.epublished if is_electronic else "") or citation.published or citation.epublished
    return {
        "type": "article-journal",
        "title": _title(citation),
        "container-title": journal.title or journal.abbreviation,
        "container-title-short": journal.abbreviation or journal.title,
        "volume": journal.volume,
        "issue": journal.issue,
        "page": journal.pages,
        "number": "" if journal.pages else citation.identifier("pii") if citation.journal.volume else "",
        "ISSN": journal.issns[0][0] if journal.issns else "",
        "genre": "preprint" if "Preprint" in citation.types else "",
        "issued": _date(date),
    }


def _chapter(citation: Citation, book: Book) -> dict[str, Any]:
    """Return the item of a chapter with the date of the chapter itself, or of a whole book."""
    is_chapter = bool(citation.title) and citation.title != book.title
    return {
        "type": "chapter" if is_chapter else "book",
        "title": _title(citation) if is_chapter else plain_title(book.title),
        "container-title": plain_title(book.title) if is_chapter else "",
        "volume": citation.journal.volume,
        "page": citation.journal.pages,
        "edition": book.edition,
        "publisher": book.publisher,
        "publisher-place": book.place,
        "ISBN": book.isbns[0] if book.isbns else "",
        "editor": _names(book.editors),
        "issued": _date(book.contributed or citation.published or book.years),
    }


def _title(citation: Citation) -> str:
    title = citation.vernacular if citation.title in ("", _NO_TITLE) and citation.vernacular else citation.title
    return plain_title(title)


def _names(people: Iterable[Person]) -> list[dict[str, str]]:
    return [_name(one) for one in people]


def _name(one: Person) -> dict[str, str]:
    if one.collective or not one.family:
        return {"literal": one.name}
    return person(one.family, one.given, one.suffix)


def _date(text: str) -> dict[str, Any]:
    if found := _DATE.fullmatch(text.strip()):
        year, month, day = found.groups()
        parts = [int(year), *([_MONTHS.index(month) + 1] if month else []), *([int(day)] if day else [])]
        return {"date-parts": [parts]}
    year_only = _YEAR.search(text)
    return {"date-parts": [[int(year_only[0])]]} if year_only else {}


def _against(citation: Citation) -> Iterable[str]:
    for notice in citation.notices:
        if word := _AGAINST.get(notice.kind):
            yield f"{word} (PMID {notice.pmid})" if notice.pmid else word
    if "Retracted Publication" in citation.types and not any("Retract" in one.kind for one in citation.notices):
        yield "Retracted"
