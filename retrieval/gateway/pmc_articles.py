"""Parse the citation of a PMC full text (JATS), and build its document summary and the XML efetch sends."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from retrieval.gateway.citation_text import issue_line
from retrieval.gateway.citations import Citation, Journal, Person
from retrieval.gateway.docsum import Item, many, text
from retrieval.gateway.documents_literature import front_items, issue_items, sort_date
from retrieval.gateway.errors import GatewayDataError
from retrieval.gateway.literature import shown_date, words
from retrieval.gateway.records import FullText

_START_TAG: Final = re.compile(r"""\s*<article\b(?:[^"'>]|"[^"]*"|'[^']*')*>""")
# NCBI adds it to every article it sends: it names the JATS version, by which a client finds the DTD.
_PROCESSING: Final = (
    '<processing-meta base-tagset="archiving" mathml-version="3.0" table-model="xhtml" tagset-family="jats">'
    "<restricted-by>pmc</restricted-by></processing-meta>"
)
_TYPES: Final = {"review-article": "Review", "correction": "Published Erratum", "case-report": "Case Reports"}
_ISSN_KINDS: Final = {"ppub": "Print", "epub": "Electronic", "print": "Print", "electronic": "Electronic"}
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
    """Parse the citation of a full text.

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
        authors=_authors(meta) or tuple(Person(name, name) for name in record.authors),
        journal=_journal(record, _part(root, "front/{*}journal-meta"), meta),
        published=printed or collected or electronic or record.date.replace("-", " "),
        epublished=electronic,
        model=model if electronic else "Print",
        languages=("eng",) if root.get(_LANGUAGE, "en") == "en" else (),
        types=(_TYPES.get(root.get("article-type", ""), "Journal Article"),),
        ids=tuple(
            (k, v) for k, v in (("pmid", record.pmid), ("doi", record.doi), ("pmcid", f"PMC{record.pmcid}")) if v
        ),
        history=(("pmc-release", f"{release} 00:00"),) if (release := pub_dates.get("live", "")) else (),
        abstract=tuple(("", line) for line in record.abstract.split("\n") if line),
        rights=words(meta.find("{*}permissions/{*}copyright-statement")),
        locations=(("doi", record.doi),) if record.doi else (),
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
        if kind == "pub":
            kind = "ppub" if element.get("publication-format") == "print" else "epub"
        if kind == "pmc-release":
            parts = [words(element.find("{*}" + name)).rjust(2, "0") for name in ("year", "month", "day")]
            found.setdefault("live", "/".join(parts) if all(part.isdigit() and int(part) for part in parts) else "")
        for name in ("epub", "ppub") if kind == "epub-ppub" else (kind,):
            found.setdefault(name, shown_date(element))
    return found


def _authors(meta: Element) -> tuple[Person, ...]:
    places = {at.get("id", ""): _place(at) for at in meta.iter() if at.tag.rpartition("}")[2] == "aff"}
    contributors = meta.findall("{*}contrib-group/{*}contrib")
    authors = (at for at in contributors if at.get("contrib-type", "author") == "author")
    return tuple(person for at in authors if (person := _person(at, places)).name)


def _place(element: Element) -> str:
    """Return an affiliation without its reference label."""
    marks = [words(at) for at in element.findall("{*}label")]
    return words(element).removeprefix("".join(marks)).strip()


def _person(contributor: Element, places: dict[str, str]) -> Person:
    references = (at for at in contributor.findall("{*}xref") if at.get("ref-type") == "aff")
    known = tuple(place for at in references for rid in at.get("rid", "").split() if (place := places.get(rid, "")))
    name = contributor.find(".//{*}name")
    if name is None:
        group = words(contributor.find(".//{*}collab"))
        return Person(group, group, True, known)
    last, given = words(name.find("{*}surname")), words(name.find("{*}given-names"))
    initials = "".join(part[0] for part in re.split(r"[\s.\-]+", given) if part)
    suffix = words(name.find("{*}suffix"))
    full = ", ".join(filter(None, (last, " ".join(filter(None, (given, suffix))))))
    return Person(" ".join(filter(None, (last, initials, suffix))), full, False, known)


def _journal(record: FullText, about: Element, meta: Element) -> Journal:
    short = {at.get("journal-id-type", ""): words(at) for at in reversed(about.findall("{*}journal-id"))}
    first, last = words(meta.find("{*}fpage")), words(meta.find("{*}lpage"))
    issns = ((words(at), at.get("pub-type", at.get("publication-format", ""))) for at in about.findall("{*}issn"))
    return Journal(
        abbreviation=short.get("nlm-ta") or short.get("iso-abbrev") or next(iter(record.journal), ""),
        title=words(about.find(".//{*}journal-title")) or next(iter(record.journal), ""),
        issns=tuple((number, _ISSN_KINDS.get(kind, kind)) for number, kind in issns),
        volume=words(meta.find("{*}volume")),
        issue=words(meta.find("{*}issue")),
        pages=(first if first == last else "-".join(filter(None, (first, last))))
        or words(meta.find("{*}elocation-id")),
    )
