"""Parse the citation of a PubMed element: an article, a book or a chapter.

The stored element begins with its tag, so no document type precedes it and no entity can be declared in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from retrieval.errors import GatewayDataError
from retrieval.formats.items import MONTHS
from retrieval.formats.notation import text_of as words
from retrieval.formats.pubmed_xml import abstract_parts
from retrieval.formats.records import Article
from retrieval.formats.tables import is_number
from retrieval.gateway.citations.citation import Book, Citation, Journal, Notice, Person

_ROOTS: Final = ("<PubmedArticle", "<PubmedBookArticle")
_UNLABELLED: Final = ("", "UNLABELLED")
Elements = Iterable[Element]


def element_of(article: Article) -> Element:
    """Parse the stored XML of an article.

    Raises:
        GatewayDataError: the stored text is not a PubMed element.
    """
    try:
        if not article.xml.lstrip().startswith(_ROOTS):
            raise GatewayDataError(f"PMID {article.pmid}: the store holds no PubMed element")
        return ElementTree.fromstring(article.xml)
    except ElementTree.ParseError as error:
        raise GatewayDataError(f"PMID {article.pmid}: the stored element cannot be read ({error})") from error


def citation_of(element: Element) -> Citation:
    return _chapter(element) if element.tag == "PubmedBookArticle" else _article(element)


def texts(elements: Elements) -> tuple[str, ...]:
    return tuple(text for element in elements if (text := words(element)))


def shown_date(element: Element | None) -> str:
    """Return a date as PubMed prints it: "2016 Mar 5", "2000 Spring", or the text of MedlineDate."""
    if element is None:
        return ""
    part = _date_parts(element)
    month = part.get("month", "")
    if is_number(month) and 1 <= int(month) <= 12:
        month = MONTHS[int(month) - 1]
    day = part.get("day", "").lstrip("0")
    parts = (part.get("year", ""), month or part.get("season", ""), day if month else "")
    return part.get("medlinedate", "") or " ".join(filter(None, parts))


def numbered_date(element: Element | None, separator: str = "") -> str:
    """Return a date as "20160305", or with a separator between the parts; "" if a part is missing."""
    part = {} if element is None else _date_parts(element)
    numbers = [part.get(name, "").rjust(2, "0") for name in ("year", "month", "day")]
    return separator.join(numbers) if all(number.isdigit() and int(number) for number in numbers) else ""


def _date_parts(element: Element) -> dict[str, str]:
    """Return the parts of a date by lower-case name, as JATS writes them."""
    return {child.tag.rpartition("}")[2].lower(): words(child) for child in element}


def people(elements: Elements) -> tuple[Person, ...]:
    """Return authors, editors or investigators, without those marked as invalid."""
    found = (_person(element) for element in elements if element.get("ValidYN") != "N")
    return tuple(person for person in found if person.name)


def _person(element: Element) -> Person:
    last, forename = words(element.find("LastName")), words(element.find("ForeName"))
    initials, suffix = words(element.find("Initials")), words(element.find("Suffix"))
    group = words(element.find("CollectiveName"))
    identifiers = tuple(f"{found.get('Source', '')}: {words(found)}" for found in element.findall("Identifier"))
    affiliations = texts(element.findall("AffiliationInfo/Affiliation"))
    if not last:
        return Person(group or forename, group or forename, bool(group), affiliations, identifiers)
    full = ", ".join(filter(None, (last, " ".join(filter(None, (forename or initials, suffix))))))
    name = " ".join(filter(None, (last, initials, suffix)))
    return Person(name, full, False, affiliations, identifiers, last, forename or initials, suffix)


def _article(root: Element) -> Citation:
    citation = part_of(root, "MedlineCitation")
    article = part_of(citation, "Article")
    located = [at for at in article.findall("ELocationID") if at.get("ValidYN") != "N"]
    return Citation(
        uid=words(citation.find("PMID")),
        title=words(article.find("ArticleTitle")),
        vernacular=words(article.find("VernacularTitle")),
        authors=people(article.findall("AuthorList/Author")),
        journal=_journal(citation, article),
        published=shown_date(article.find("Journal/JournalIssue/PubDate")),
        epublished=shown_date(article.find("ArticleDate")),
        model=article.get("PubModel", ""),
        owner=citation.get("Owner", "NLM"),
        status=citation.get("Status", ""),
        publication_status=words(root.find("PubmedData/PublicationStatus")),
        languages=texts(article.findall("Language")),
        types=texts(article.findall("PublicationTypeList/PublicationType")),
        ids=_ids(root.findall("PubmedData/ArticleIdList/ArticleId")),
        history=_history(root.findall("PubmedData/History/PubMedPubDate")),
        notices=tuple(map(_notice, citation.findall("CommentsCorrectionsList/CommentsCorrections"))),
        abstract=sections(article.findall("Abstract/AbstractText")),
        other_abstract=sections(abstract_parts(citation)),
        rights=words(article.find("Abstract/CopyrightInformation")),
        locations=tuple((at.get("EIdType", ""), words(at)) for at in located),
        conflicts=words(citation.find("CoiStatement")),
    )


def _chapter(root: Element) -> Citation:
    document = part_of(root, "BookDocument")
    book = part_of(document, "Book")
    ids = [*document.findall("ArticleIdList/ArticleId"), *root.findall("PubmedBookData/ArticleIdList/ArticleId")]
    return Citation(
        uid=words(document.find("PMID")),
        title=words(document.find("ArticleTitle")) or words(book.find("BookTitle")),
        vernacular=words(document.find("VernacularTitle")),
        authors=people(_listed(document, "authors")) or people(_listed(book, "authors")),
        journal=Journal(volume=words(book.find("Volume")), pages=_pages(document)),
        published=shown_date(book.find("PubDate")),
        status="Publisher",
        publication_status=words(root.find("PubmedBookData/PublicationStatus")),
        languages=texts(document.findall("Language")),
        types=texts(document.findall("PublicationType")),
        ids=tuple(dict.fromkeys(_ids(ids))),
        history=_history(root.findall("PubmedBookData/History/PubMedPubDate")),
        abstract=sections(document.findall("Abstract/AbstractText")),
        rights=words(document.find("Abstract/CopyrightInformation")),
        locations=tuple((at.get("EIdType", ""), words(at)) for at in book.findall("ELocationID")),
        book=_book(document, book),
    )


def part_of(element: Element, name: str) -> Element:
    """Return the first child of this name, or an empty element."""
    found = element.find(name)
    return Element(name) if found is None else found


def _listed(element: Element, kind: str) -> list[Element]:
    """Return the people of the author lists of one kind; a list without a kind is one of authors."""
    lists = (found for found in element.findall("AuthorList") if found.get("Type", "authors") == kind)
    return [author for found in lists for author in found.findall("Author")]


def _journal(citation: Element, article: Element) -> Journal:
    issns = [(words(at), at.get("IssnType", "")) for at in article.findall("Journal/ISSN")]
    issns += [(words(at), "Linking") for at in citation.findall("MedlineJournalInfo/ISSNLinking")]
    abbreviation = words(article.find("Journal/ISOAbbreviation"))
    return Journal(
        abbreviation=words(citation.find("MedlineJournalInfo/MedlineTA")) or abbreviation,
        title=words(article.find("Journal/Title")),
        nlm_id=words(citation.find("MedlineJournalInfo/NlmUniqueID")),
        country=words(citation.find("MedlineJournalInfo/Country")),
        issns=tuple(issns),
        volume=words(article.find("Journal/JournalIssue/Volume")),
        issue=words(article.find("Journal/JournalIssue/Issue")),
        pages=_pages(article),
    )


def _pages(element: Element) -> str:
    first, last = words(element.find("Pagination/StartPage")), words(element.find("Pagination/EndPage"))
    return words(element.find("Pagination/MedlinePgn")) or "-".join(filter(None, (first, last)))


def _book(document: Element, book: Element) -> Book:
    start, end = (shown_date(book.find(name)) for name in ("BeginningDate", "EndingDate"))
    return Book(
        title=words(book.find("BookTitle")),
        publisher=words(book.find("Publisher/PublisherName")),
        place=words(book.find("Publisher/PublisherLocation")),
        years=f"{start}-{end}" if start else shown_date(book.find("PubDate")),
        contributed=shown_date(document.find("ContributionDate")),
        editors=people(_listed(book, "editors")),
    )


def _ids(elements: Elements) -> tuple[tuple[str, str], ...]:
    return tuple((at.get("IdType", "pubmed"), text) for at in elements if (text := words(at)))


def _history(elements: Elements) -> tuple[tuple[str, str], ...]:
    found = ((at.get("PubStatus", ""), numbered_date(at, "/"), at) for at in elements)
    return tuple((status, f"{day} {_clock(at)}") for status, day, at in found if day)


def _clock(element: Element) -> str:
    return ":".join((words(element.find(name)) or "0").rjust(2, "0") for name in ("Hour", "Minute"))


def _notice(element: Element) -> Notice:
    source, pmid, note = (words(element.find(name)) for name in ("RefSource", "PMID", "Note"))
    return Notice(element.get("RefType", ""), source, pmid, note)


def sections(elements: Elements) -> tuple[tuple[str, str], ...]:
    """Return (label, text) of an abstract's parts; an uninformative label becomes ""."""
    labelled = ((part.get("Label", ""), words(part)) for part in elements)
    return tuple(("" if label in _UNLABELLED else label, text) for label, text in labelled if text)
