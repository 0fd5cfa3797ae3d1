"""Write a citation in the formats that reference managers read: MEDLINE (efetch's rettype=medline) and CSL-JSON. Pure.

MEDLINE is NLM's tagged display: https://www.nlm.nih.gov/bsd/mms/medlineelements.html has its tags and their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final
from xml.etree.ElementTree import Element

from retrieval.formats.items import medline_date
from retrieval.formats.notation import text_of as words
from retrieval.formats.records import Article
from retrieval.gateway.citations.citation import Book, Citation, Person, lines_of, source_line
from retrieval.gateway.citations.pubmed_citation import (
    citation_of,
    element_of,
    numbered_date,
    part_of,
    people,
    sections,
    texts,
)
from retrieval.references.csl import PUBMED, person, plain_title

_WIDTH: Final = 81  # beside the tag; a broken line ends in a blank
_BREAK: Final = " \n" + " " * 6
Field = tuple[str, str]
Fields = Iterator[Field]

# NLM has no tag for an associated dataset.
_NOTICE_TAGS: Final = {
    "CommentIn": "CIN", "CommentOn": "CON", "ErratumIn": "EIN", "ErratumFor": "EFR",
    "CorrectedandRepublishedIn": "CRI", "CorrectedandRepublishedFrom": "CRF",
    "ExpressionOfConcernIn": "ECI", "ExpressionOfConcernFor": "ECF",
    "PartialRetractionIn": "PRIN", "PartialRetractionOf": "PROF",
    "RepublishedIn": "RPI", "RepublishedFrom": "RPF", "ReprintIn": "RPI", "ReprintOf": "RPF",
    "RetractedandRepublishedIn": "RRI", "RetractedandRepublishedFrom": "RRF",
    "RetractionIn": "RIN", "RetractionOf": "ROF", "UpdateIn": "UIN", "UpdateOf": "UOF",
    "SummaryForPatientsIn": "SPIN", "OriginalReportIn": "ORI", "AssociatedPublication": "DDIN",
}  # fmt: skip
_HISTORY_TAGS: Final = {"pubmed": "EDAT", "medline": "MHDA", "entrez": "CRDT"}
_NO_AID: Final = frozenset(("pubmed", "pmc", "pmcid", "pmid", "mid"))
_NO_TITLE: Final = "[Not Available]."
# Notices of other records that a reader of the reference has to know.
_AGAINST: Final = {
    "RetractionIn": "Retracted",
    "RetractedandRepublishedIn": "Retracted and republished",
    "PartialRetractionIn": "Retracted in part",
    "ExpressionOfConcernIn": "Expression of concern",
}


def medline_text(citation: Citation, element: Element) -> str:
    """Render one record, a blank line before it.

    ``element`` is the PubMed element, for what a citation does not hold.
    """
    fields = _fields(citation, element)
    return "\n" + "".join(f"{tag:<4}- {_BREAK.join(lines_of(value, _WIDTH))}\n" for tag, value in fields if value)


def _fields(citation: Citation, root: Element) -> Fields:
    medline = part_of(root, "BookDocument" if citation.book else "MedlineCitation")
    yield from _head(citation, medline)
    yield from _titles(citation)
    yield from _book_fields(citation.book) if citation.book else ()
    yield from (field for person in citation.authors for field in _person_fields(person, "FAU", "AU"))
    yield from (("LA", language) for language in citation.languages)
    yield from _support(medline)
    yield from (("PT", kind) for kind in citation.types)
    yield "TT", citation.vernacular
    yield "DEP", numbered_date(medline.find("Article/ArticleDate"))
    yield "PL", citation.journal.country
    yield "TA", citation.journal.abbreviation
    yield "JT", citation.journal.title
    yield "JID", citation.journal.nlm_id
    yield from _indexing(citation, medline)
    yield from _tail(citation)
    yield "SO", source_line(citation)


def _head(citation: Citation, medline: Element) -> Fields:
    journal = citation.journal
    yield "PMID", citation.uid
    yield "OWN", citation.owner
    yield "STAT", citation.status
    yield "DCOM", numbered_date(medline.find("DateCompleted"))
    yield "LR", numbered_date(medline.find("DateRevised"))
    yield from (("IS", f"{number} ({kind})") for number, kind in journal.issns)
    yield "VI", journal.volume
    yield "IP", journal.issue
    yield "DP", citation.published


def _titles(citation: Citation) -> Fields:
    yield "TI", citation.title
    yield "PG", citation.journal.pages
    yield from (("LID", f"{value} [{kind}]") for kind, value in citation.locations)
    yield "AB", _running(citation.abstract)
    yield "CI", citation.rights


def _running(parts: Iterable[tuple[str, str]]) -> str:
    return " ".join(f"{label}: {text}" if label else text for label, text in parts)


def _person_fields(person: Person, full: str, short: str) -> Fields:
    if person.collective:
        yield "CN", person.name
    else:
        yield full, person.full
        yield short, person.name
    yield from (("AUID", identifier) for identifier in person.identifiers)
    affiliation = "IRAD" if short == "IR" else "AD"
    yield from ((affiliation, place) for place in person.affiliations)


def _support(medline: Element) -> Fields:
    for bank in medline.findall("Article/DataBankList/DataBank"):
        name, numbers = words(bank.find("DataBankName")), texts(bank.findall("AccessionNumberList/AccessionNumber"))
        yield from (("SI", f"{name}/{number}") for number in numbers or ("",))
    for grant in medline.findall("Article/GrantList/Grant"):
        parts = (words(grant.find(name)) for name in ("GrantID", "Acronym", "Agency", "Country"))
        yield "GR", "/".join(filter(None, parts))


def _indexing(citation: Citation, medline: Element) -> Fields:
    for chemical in medline.findall("ChemicalList/Chemical"):
        yield "RN", f"{words(chemical.find('RegistryNumber'))} ({words(chemical.find('NameOfSubstance'))})"
    yield from (("SB", subset) for subset in texts(medline.findall("CitationSubset")))
    yield from _other_abstracts(medline)
    for notice in citation.notices:
        number = f"{'' if notice.source.endswith('.') else '.'} PMID: {notice.pmid}" if notice.pmid else ""
        yield _NOTICE_TAGS.get(notice.kind, ""), f"{notice.source}{number}" if notice.kind in _NOTICE_TAGS else ""
    yield from (("MH", _heading(heading)) for heading in medline.findall("MeshHeadingList/MeshHeading"))
    yield from (("NM", name) for name in texts(medline.findall("SupplMeshList/SupplMeshName")))
    yield from (("GS", symbol) for symbol in texts(medline.findall("GeneSymbolList/GeneSymbol")))
    yield "RF", words(medline.find("NumberOfReferences"))
    for subject in people(medline.findall("PersonalNameSubjectList/PersonalNameSubject")):
        yield "FPS", subject.full
        yield "PS", subject.name
    yield from (("OID", f"{at.get('Source', '')}: {words(at)}") for at in medline.findall("OtherID"))
    yield from _keywords(medline)
    yield from (("SFM", mission) for mission in texts(medline.findall("SpaceFlightMission")))
    for investigator in people(medline.findall("InvestigatorList/Investigator")):
        yield from _person_fields(investigator, "FIR", "IR")
    yield from (("GN", f"{at.get('Owner', 'NLM')}: {words(at)}") for at in medline.findall("GeneralNote"))


def _other_abstracts(medline: Element) -> Fields:
    for other in medline.findall("OtherAbstract"):
        kind, language = other.get("Type", ""), other.get("Language", "eng")
        yield "OAB", f"{kind}: {_running(sections(other.findall('AbstractText')))}"
        yield "OABL", language
        yield "OCI", words(other.find("CopyrightInformation"))


def _heading(heading: Element) -> str:
    return "/".join(f"{'*' if part.get('MajorTopicYN') == 'Y' else ''}{words(part)}" for part in heading)


def _keywords(root: Element) -> Fields:
    for group in root.findall("KeywordList"):
        yield "OTO", group.get("Owner", "NLM")
        for keyword in group.findall("Keyword"):
            star = "*" if keyword.get("MajorTopicYN") == "Y" else ""
            yield "OT", f"{star}{text}" if (text := words(keyword)) else ""


def _tail(citation: Citation) -> Fields:
    yield "PMC", citation.identifier("pmc")
    yield "MID", citation.identifier("mid")
    yield "COIS", citation.conflicts
    first = {tag: at for status, at in reversed(citation.history) if (tag := _HISTORY_TAGS.get(status))}
    yield from ((tag, first.get(tag, "")) for tag in ("EDAT", "MHDA"))
    yield "PMCR", next((at.split(" ")[0] for status, at in citation.history if status == "pmc-release"), "")
    yield "CRDT", first.get("CRDT", "")
    yield from (("PHST", f"{at} [{status}]") for status, at in citation.history)
    yield from (("AID", f"{value} [{kind}]") for kind, value in citation.ids if kind not in _NO_AID)
    yield "PST", citation.publication_status


def _book_fields(book: Book) -> Fields:
    yield "PB", book.publisher
    yield "BTI", book.title
    yield from (field for person in book.editors for field in _person_fields(person, "FED", "ED"))
    yield "PL", book.place


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
    is_chapter = citation.title != book.title
    return {
        "type": "chapter" if is_chapter else "book",
        "title": _title(citation),
        "container-title": plain_title(book.title) if is_chapter else "",
        "volume": citation.journal.volume,
        "page": citation.journal.pages,
        "publisher": book.publisher,
        "publisher-place": book.place,
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
    """Return the first date of a text as PubMed prints it; without a month for a season."""
    parts = [int(part) for part in medline_date(text).split("-") if part]
    return {"date-parts": [parts]} if parts else {}


def _against(citation: Citation) -> Iterable[str]:
    for notice in citation.notices:
        if word := _AGAINST.get(notice.kind):
            yield f"{word} (PMID {notice.pmid})" if notice.pmid else word
    if "Retracted Publication" in citation.types and not any("Retract" in one.kind for one in citation.notices):
        yield "Retracted"
