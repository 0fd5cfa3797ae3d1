"""Render efetch's rettype=medline: NLM's tagged display of a citation.

Tags and their order: https://www.nlm.nih.gov/bsd/mms/medlineelements.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from xml.etree.ElementTree import Element

from retrieval.gateway.citations.citation import Book, Citation, Person, lines_of, source_line
from retrieval.gateway.citations.pubmed_citation import numbered_date, part_of, people, sections, texts, words

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


def medline_text(citation: Citation, element: Element | None = None) -> str:
    """Render one record, a blank line before it.

    ``element`` is the PubMed element, for what a citation does not hold.
    """
    root = Element("none") if element is None else element
    fields = _book_fields(citation, citation.book, root) if citation.book else _article_fields(citation, root)
    return "\n" + "".join(f"{tag:<4}- {_BREAK.join(lines_of(value, _WIDTH))}\n" for tag, value in fields if value)


def _article_fields(citation: Citation, root: Element) -> Fields:
    medline = part_of(root, "MedlineCitation")
    yield from _head(citation, medline)
    yield from _titles(citation)
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
    yield "PMC", citation.uid if citation.uid.startswith("PMC") else ""
    yield "PMID", citation.identifier("pmid") if citation.uid.startswith("PMC") else citation.uid
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
    for person in people(medline.findall("PersonalNameSubjectList/PersonalNameSubject")):
        yield "FPS", person.full
        yield "PS", person.name
    yield from (("OID", f"{at.get('Source', '')}: {words(at)}") for at in medline.findall("OtherID"))
    yield from _keywords(medline)
    yield from (("SFM", mission) for mission in texts(medline.findall("SpaceFlightMission")))
    for person in people(medline.findall("InvestigatorList/Investigator")):
        yield from _person_fields(person, "FIR", "IR")
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
    yield "PMC", "" if citation.uid.startswith("PMC") else citation.identifier("pmc")
    yield "MID", citation.identifier("mid")
    yield "COIS", citation.conflicts
    first = {tag: at for status, at in reversed(citation.history) if (tag := _HISTORY_TAGS.get(status))}
    yield from ((tag, first.get(tag, "")) for tag in ("EDAT", "MHDA"))
    yield "PMCR", next((at.split(" ")[0] for status, at in citation.history if status == "pmc-release"), "")
    yield "CRDT", first.get("CRDT", "")
    yield from (("PHST", f"{at} [{status}]") for status, at in citation.history)
    yield from (("AID", f"{value} [{kind}]") for kind, value in citation.ids if kind not in _NO_AID)
    yield "PST", citation.publication_status


def _book_fields(citation: Citation, book: Book, root: Element) -> Fields:
    document = part_of(root, "BookDocument")
    yield "PMID", citation.uid
    yield "STAT", citation.status
    yield "DRDT", numbered_date(document.find("DateRevised"))
    yield "CTDT", numbered_date(document.find("ContributionDate"))
    yield "PB", book.publisher
    yield "DP", citation.published
    yield "TI", citation.title or book.title
    yield "BTI", book.title if citation.title else ""
    yield "CTI", book.collection
    yield "VTI", book.volume_title
    yield "EN", book.edition
    yield "VI", citation.journal.volume
    yield "PG", citation.journal.pages
    yield from (("ISBN", number) for number in book.isbns)
    yield "AB", _running(citation.abstract)
    yield "CI", citation.rights
    yield from (field for person in book.editors for field in _person_fields(person, "FED", "ED"))
    yield from (field for person in citation.authors for field in _person_fields(person, "FAU", "AU"))
    yield from (("LA", language) for language in citation.languages)
    yield from (("PT", kind) for kind in citation.types)
    yield "PL", book.place
    yield from _keywords(document)
    yield from _tail(citation)
