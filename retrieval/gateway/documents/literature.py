"""Build PubMed's document summaries: the JSON mapping, and the items of the older XML layout."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from retrieval.errors import GatewayDataError
from retrieval.formats.notation import text_of as words
from retrieval.formats.records import FullText
from retrieval.formats.tables import is_number
from retrieval.gateway.citations.citation import (
    LANGUAGES,
    Book,
    Citation,
    Journal,
    Notice,
    Person,
    issue_line,
    notice_name,
)
from retrieval.gateway.citations.pubmed_citation import shown_date
from retrieval.gateway.documents.docsum_xml import Item, date, many, number, text

_NO_LETTERS: Final = re.compile(r"[^\w]+")
_LEADING_ARTICLE: Final = re.compile(r"^(?:a|an|the)\s+")
_RECORD_STATUS: Final = {
    "MEDLINE": "PubMed - indexed for MEDLINE",
    "Completed": "PubMed - indexed for MEDLINE",
    "In-Process": "PubMed - in process",
    "In-Data-Review": "PubMed - in process",
    "OLDMEDLINE": "PubMed - OLDMEDLINE",
    "Publisher": "PubMed - as supplied by publisher",
    "PubMed-not-MEDLINE": "PubMed",
}
_PUB_STATUS: Final = {
    "received": 1, "accepted": 2, "epublish": 3, "ppublish": 4, "revised": 5, "pmc": 6, "pmcr": 7, "pubmed": 8,
    "pubmedr": 9, "aheadofprint": 10, "premedline": 11, "medline": 12,
}  # fmt: skip
_BOTH_WAYS: Final = {("Print-Electronic", "ppublish"): 256, ("Electronic-eCollection", "epublish"): 258}
_ID_NUMBERS: Final = {"pubmed": 1, "medline": 2, "doi": 3, "pii": 4, "pmcid": 5}
_OTHER_ID: Final = 8


def pubmed_document(citation: Citation, date_of_record: str) -> dict[str, Any]:
    """Build the JSON mapping of a citation.

    ``date_of_record`` is year-month-day as far as known; what the store cannot know (citation counts) is empty.
    """
    return {
        "uid": citation.uid,
        "pubdate": citation.published,
        "epubdate": citation.epublished,
        "source": citation.journal.abbreviation,
        "authors": [_contributor(person) for person in citation.authors],
        "lastauthor": last_author(citation),
        "title": citation.title,
        "sorttitle": _sort_title(citation.title),
        "volume": citation.journal.volume,
        "issue": citation.journal.issue,
        "pages": citation.journal.pages,
        "lang": list(citation.languages),
        "nlmuniqueid": citation.journal.nlm_id,
        "issn": issn(citation, "Print"),
        "essn": issn(citation, "Electronic"),
        "pubtype": list(citation.types),
        "recordstatus": _record_status(citation),
        "pubstatus": citation.publication_status if citation.book else _status_number(citation),
        "articleids": _article_ids(citation),
        "history": [{"pubstatus": status, "date": at} for status, at in citation.history],
        "references": [_reference(notice) for notice in citation.notices if notice.kind != "Cites"],
        "attributes": ["Has Abstract"] if citation.abstract else [],
        "pmcrefcount": "",
        "fulljournalname": citation.journal.title,
        "elocationid": locations(citation),
        "doctype": _doctype(citation),
        **_book_part(citation),
        "sortpubdate": sort_date(date_of_record),
        "sortfirstauthor": citation.authors[0].name if citation.authors else "",
        "vernaculartitle": citation.vernacular,
    }


def _doctype(citation: Citation) -> str:
    if citation.book is None:
        return "citation"
    return "book" if citation.title == citation.book.title else "chapter"


def _book_part(citation: Citation) -> dict[str, Any]:
    book = citation.book or Book(title="")
    accession = citation.identifier("bookaccession")
    return {
        "srccontriblist": [_contributor(person, "Editor") for person in book.editors],
        "booktitle": book.title,
        "medium": "",
        "edition": "",
        "publisherlocation": book.place,
        "publishername": book.publisher,
        "srcdate": book.years,
        "reportnumber": "",
        "availablefromurl": f"http://www.ncbi.nlm.nih.gov/books/{accession}/" if accession else "",
        "locationlabel": "",
        "doccontriblist": [_contributor(person) for person in citation.authors] if citation.book else [],
        "docdate": book.contributed,
        "bookname": "",
        "chapter": "",
    }


def _contributor(person: Person, kind: str = "Author") -> dict[str, str]:
    return {"name": person.name, "authtype": "CollectiveName" if person.collective else kind, "clusterid": ""}


def last_author(citation: Citation) -> str:
    """Return the last person, or the last group if there are no persons."""
    persons = [person for person in citation.authors if not person.collective] or citation.authors
    return persons[-1].name if persons else ""


def _sort_title(title: str) -> str:
    return _LEADING_ARTICLE.sub("", " ".join(_NO_LETTERS.split(title.lower())).strip())


def issn(citation: Citation, kind: str) -> str:
    return next((found for found, of in citation.journal.issns if of == kind), "")


def _record_status(citation: Citation) -> str:
    return "PubMed" if citation.book else _RECORD_STATUS.get(citation.status, "PubMed")


def _status_number(citation: Citation) -> str:
    status = citation.publication_status
    if not status:
        return ""
    return str(_BOTH_WAYS.get((citation.model, status)) or _PUB_STATUS.get(status, 255))


def _article_ids(citation: Citation) -> list[dict[str, Any]]:
    ids = citation.ids if citation.identifier("pubmed") else (("pubmed", citation.uid), *citation.ids)
    pmc = citation.identifier("pmc")
    if pmc and not citation.identifier("pmcid"):
        ids = (*ids, ("pmcid", f"pmc-id: {pmc};"))
    return [{"idtype": kind, "idtypen": _ID_NUMBERS.get(kind, _OTHER_ID), "value": value} for kind, value in ids]


def _reference(notice: Notice) -> dict[str, Any]:
    pmid: int | str = int(notice.pmid) if is_number(notice.pmid) else notice.pmid
    return {"refsource": notice.source, "reftype": notice_name(notice.kind), "pmid": pmid, "note": notice.note}


def locations(citation: Citation) -> str:
    return ". ".join(f"{kind}: {value}" for kind, value in citation.locations)


def sort_date(day: str) -> str:
    """Return a date in sortable form: "2016-03" becomes "2016/03/01 00:00"."""
    parts = [*day.split("-"), "01", "01"][:3]
    return f"{'/'.join(parts)} 00:00" if day else ""


def pubmed_items(citation: Citation) -> list[Item]:
    doi = citation.identifier("doi")
    return [
        *front_items(citation),
        text("LastAuthor", last_author(citation)),
        text("Title", citation.title),
        *issue_items(citation),
        many("LangList", [text("Lang", LANGUAGES.get(code, code)) for code in citation.languages]),
        text("NlmUniqueID", citation.journal.nlm_id),
        text("ISSN", issn(citation, "Print")),
        text("ESSN", issn(citation, "Electronic")),
        many("PubTypeList", [text("PubType", kind) for kind in citation.types]),
        text("RecordStatus", _record_status(citation)),
        text("PubStatus", citation.publication_status),
        many("ArticleIds", [text(found["idtype"], found["value"]) for found in _article_ids(citation)]),
        *([text("DOI", doi)] if doi else []),
        many("History", [date(status, at) for status, at in citation.history]),
        many("References", [text(notice_name(n.kind), n.source) for n in citation.notices if n.kind != "Cites"]),
        number("HasAbstract", int(bool(citation.abstract))),
        number("PmcRefCount", 0),
        text("FullJournalName", citation.journal.title),
        text("ELocationID", locations(citation)),
        text("SO", issue_line(citation)),
    ]


def front_items(citation: Citation) -> list[Item]:
    return [
        date("PubDate", citation.published),
        date("EPubDate", citation.epublished),
        text("Source", citation.journal.abbreviation),
        many("AuthorList", [text("Author", person.name) for person in citation.authors]),
    ]


def issue_items(citation: Citation) -> list[Item]:
    journal = citation.journal
    return [text("Volume", journal.volume), text("Issue", journal.issue), text("Pages", journal.pages)]


_START_TAG: Final = re.compile(r"""\s*<article\b(?:[^"'>]|"[^"]*"|'[^']*')*>""")
# NCBI adds it to every article it sends: it names the JATS version, by which a client finds the DTD.
_PROCESSING: Final = (
    '<processing-meta base-tagset="archiving" mathml-version="3.0" table-model="xhtml" tagset-family="jats">'
    "<restricted-by>pmc</restricted-by></processing-meta>"
)
_TYPES: Final = {"review-article": "Review", "correction": "Published Erratum", "case-report": "Case Reports"}
_LANGUAGE: Final = "{http://www.w3.org/XML/1998/namespace}lang"


def article_markup(record: FullText) -> str:
    """Return the article as efetch sends it."""
    start = _START_TAG.match(record.xml)
    if start is None:
        raise GatewayDataError(f"PMC{record.pmcid}: the store holds no JATS article")
    if "<processing-meta" in record.xml:
        return record.xml
    return f"{record.xml[: start.end()]}{_PROCESSING}{record.xml[start.end() :]}"


def pmc_citation(record: FullText) -> Citation:
    """Parse what a summary has of a full text's citation.

    Raises:
        GatewayDataError: the stored text is not a JATS article.
    """
    root = _root(record)
    meta = _part(root, "front/{*}article-meta")
    pub_dates = _dates(meta.findall("{*}pub-date"))
    printed, electronic = pub_dates.get("ppub", ""), pub_dates.get("epub", "")
    collected = pub_dates.get("collection", "")
    model = "Print-Electronic" if printed else "Electronic-eCollection" if collected else "Electronic"
    return Citation(
        uid=f"PMC{record.pmcid}",
        title=record.title,
        authors=tuple(Person(name, name) for name in record.authors),
        journal=_journal(record, _part(root, "front/{*}journal-meta"), meta),
        published=printed or collected or electronic or record.date.replace("-", " "),
        epublished=electronic,
        model=model if electronic else "Print",
        ids=tuple(
            (k, v) for k, v in (("pmid", record.pmid), ("doi", record.doi), ("pmcid", f"PMC{record.pmcid}")) if v
        ),
        history=(("pmc-release", f"{release} 00:00"),) if (release := pub_dates.get("live", "")) else (),
    )


def pmc_document(citation: Citation, record: FullText) -> dict[str, Any]:
    printed = citation.published if citation.model in ("Print", "Print-Electronic") else ""
    release = next((at for status, at in citation.history if status == "pmc-release"), "")
    return {
        "uid": str(record.pmcid),
        "pubdate": citation.epublished or citation.published,
        "epubdate": citation.epublished,
        "printpubdate": printed,
        "source": citation.journal.abbreviation,
        "authors": [{"name": person.name, "authtype": "Author"} for person in citation.authors],
        "title": citation.title,
        "volume": citation.journal.volume,
        "issue": citation.journal.issue,
        "pages": citation.journal.pages,
        "articleids": [{"idtype": kind, "value": value} for kind, value in citation.ids],
        "fulljournalname": citation.journal.title,
        "sortdate": sort_date(record.date),
        "pmclivedate": release.split(" ")[0],
    }


def pmc_items(citation: Citation) -> list[Item]:
    doi = citation.identifier("doi")
    return [
        *front_items(citation),
        text("Title", citation.title),
        *issue_items(citation),
        many("ArticleIds", [text(kind, value) for kind, value in citation.ids]),
        *([text("DOI", doi)] if doi else []),
        text("FullJournalName", citation.journal.title),
        text("SO", issue_line(citation)),
    ]


def _root(record: FullText) -> Element:
    try:
        if _START_TAG.match(record.xml) is None:
            raise GatewayDataError(f"PMC{record.pmcid}: the store holds no JATS article")
        return ElementTree.fromstring(record.xml)
    except ElementTree.ParseError as error:
        raise GatewayDataError(f"PMC{record.pmcid}: the stored article cannot be read ({error})") from error


def _part(element: Element, path: str) -> Element:
    found = element.find("{*}" + path)
    return Element("none") if found is None else found


def _dates(elements: Iterable[Element]) -> dict[str, str]:
    """Return the first date of each kind: "ppub", "epub", "collection", and "live" as 2003/12/01."""
    found: dict[str, str] = {}
    for element in elements:
        kind = element.get("pub-type", element.get("date-type", ""))
        if kind in ("pub", "publication"):
            kind = "ppub" if element.get("publication-format") == "print" else "epub"
        if kind == "pmc-release":
            parts = [words(element.find("{*}" + name)).rjust(2, "0") for name in ("year", "month", "day")]
            found.setdefault("live", "/".join(parts) if all(part.isdigit() and int(part) for part in parts) else "")
        for name in ("epub", "ppub") if kind == "epub-ppub" else (kind,):
            found.setdefault(name, shown_date(element))
    return found


def _journal(record: FullText, about: Element, meta: Element) -> Journal:
    short = {at.get("journal-id-type", ""): words(at) for at in reversed(about.findall("{*}journal-id"))}
    first, last = words(meta.find("{*}fpage")), words(meta.find("{*}lpage"))
    return Journal(
        abbreviation=short.get("nlm-ta") or short.get("iso-abbrev") or next(iter(record.journal), ""),
        title=words(about.find(".//{*}journal-title")) or next(iter(record.journal), ""),
        volume=words(meta.find("{*}volume")),
        issue=words(meta.find("{*}issue")),
        pages=(first if first == last else "-".join(filter(None, (first, last))))
        or words(meta.find("{*}elocation-id")),
    )
