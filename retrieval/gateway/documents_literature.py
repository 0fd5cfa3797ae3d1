"""Build PubMed's document summaries: the JSON mapping, and the items of the older XML layout."""

from __future__ import annotations

import re
from typing import Any, Final

from retrieval.gateway.citation_text import LANGUAGES, issue_line, notice_name
from retrieval.gateway.citations import Book, Citation, Notice, Person
from retrieval.gateway.docsum import Item, date, many, number, text

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
        "doctype": "citation" if citation.book is None else "chapter" if citation.title else "book",
        **_book_part(citation),
        "sortpubdate": sort_date(date_of_record),
        "sortfirstauthor": citation.authors[0].name if citation.authors else "",
        "vernaculartitle": citation.vernacular,
    }


def _book_part(citation: Citation) -> dict[str, Any]:
    book = citation.book or Book(title="")
    accession = citation.identifier("bookaccession")
    return {
        "srccontriblist": [_contributor(person, "Editor") for person in book.editors],
        "booktitle": book.title,
        "medium": book.medium,
        "edition": book.edition,
        "publisherlocation": book.place,
        "publishername": book.publisher,
        "srcdate": book.years,
        "reportnumber": book.report,
        "availablefromurl": f"http://www.ncbi.nlm.nih.gov/books/{accession}/" if accession else "",
        "locationlabel": "",
        "doccontriblist": [_contributor(person) for person in citation.authors] if citation.book else [],
        "docdate": book.contributed,
        "bookname": book.name,
        "chapter": book.part,
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
    pmid: int | str = int(notice.pmid) if notice.pmid.isascii() and notice.pmid.isdigit() else notice.pmid
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
        text("Title", citation.title or (citation.book.title if citation.book else "")),
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
