"""Read PubMed's baseline and update files (ftp.ncbi.nlm.nih.gov/pubmed) and efetch replies, each a PubmedArticleSet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final
from xml.etree.ElementTree import Element

from retrieval.formats.items import NO_OPTIONS, Good, Item, MalformedRecord, ReadOptions, bad, date_of
from retrieval.formats.notation import text_of
from retrieval.formats.records import Article, Entry, Removal
from retrieval.formats.sources import Source
from retrieval.formats.tables import identifier, is_number, whole
from retrieval.formats.xml_records import Layout, RawRecord, parse, records

LAYOUT: Final = Layout("PubmedArticleSet", frozenset(("PubmedArticle", "PubmedBookArticle", "DeleteCitation")))
_RETRACTED: Final = frozenset(("RetractionIn", "RetractedandRepublishedIn"))
_CORRECTED: Final = frozenset(
    ("ErratumIn", "ExpressionOfConcernIn", "UpdateIn", "CorrectedandRepublishedIn", "PartialRetractionIn")
)
_PMC: Final = re.compile(r"(?:PMC)?([0-9]+)(?:\.[0-9]+)?", re.ASCII)


def read(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield an Article for each record and a Removal for each PMID of a DeleteCitation.

    ``line`` is the line on which the element begins. A record without a title of its own gets its vernacular title or
    the book's. ``mesh`` has the headings without qualifiers, ``mesh_major`` those of which the heading or a qualifier
    is a major topic.
    """
    for record in records(source, source.chunks(), LAYOUT):
        if record.name == "DeleteCitation":
            items = _removals(record)
            yield from items[skip:]
            skip = max(0, skip - len(items))
        elif skip > 0:
            skip -= 1
        else:
            yield _item(record)


def article_of(xml: str) -> Article:
    """Read one PubmedArticle or PubmedBookArticle element.

    Raises:
        MalformedRecord: it is neither, or not well-formed.
    """
    name = "PubmedBookArticle" if xml.startswith("<PubmedBookArticle") else "PubmedArticle"
    element, text = parse(RawRecord(1, name, xml.encode()))
    return _book(element, text) if name == "PubmedBookArticle" else _article(element, text)


def _removals(record: RawRecord) -> list[Item]:
    try:
        element, _ = parse(record)
        return [
            Good(record.line, Removal("pubmed", identifier(text_of(pmid), "PMID"))) for pmid in element.findall("PMID")
        ]
    except MalformedRecord as error:
        return [bad(record.line, error)]


def _item(record: RawRecord) -> Item:
    try:
        element, xml = parse(record)
        entry: Entry = _book(element, xml) if record.name == "PubmedBookArticle" else _article(element, xml)
    except MalformedRecord as error:
        return bad(record.line, error)
    return Good(record.line, entry)


def _article(element: Element, xml: str) -> Article:
    citation = element.find("MedlineCitation")
    article = None if citation is None else citation.find("Article")
    if citation is None or article is None:
        raise MalformedRecord("PubmedArticle: no MedlineCitation with an Article within")
    title = text_of(article.find("ArticleTitle"))
    if title in ("", "[Not Available]."):
        title = text_of(article.find("VernacularTitle")) or title
    ids = _article_ids(element.findall("PubmedData/ArticleIdList/ArticleId"))
    headings = citation.findall("MeshHeadingList/MeshHeading")
    notices = citation.findall("CommentsCorrectionsList/CommentsCorrections")
    return Article(
        pmid=whole(text_of(citation.find("PMID")), "PMID"),
        xml=xml,
        title=title,
        abstract=_abstract(abstract_parts(citation)),
        journal=_journal(citation, article),
        date=date_of(article.find("Journal/JournalIssue/PubDate")) or date_of(article.find("ArticleDate")),
        authors=_authors(article.findall("AuthorList/Author")),
        types=_texts(article.findall("PublicationTypeList/PublicationType")),
        mesh=_texts(heading.find("DescriptorName") for heading in headings),
        mesh_major=_texts(heading.find("DescriptorName") for heading in headings if _is_major(heading)),
        keywords=_texts(citation.findall("KeywordList/Keyword")),
        languages=_texts(article.findall("Language")),
        doi=ids.get("doi", "") or _doi(article),
        pmc=ids.get("pmc", ""),
        retracted_by=_notices(notices, _RETRACTED),
        corrected_by=_notices(notices, _CORRECTED),
        version=_version(citation.find("PMID")),
    )


def abstract_parts(citation: Element) -> list[Element]:
    """Return the parts of the abstract; where there is none, those of another one, in English if there is one."""
    others = sorted(citation.findall("OtherAbstract"), key=lambda other: other.get("Language", "eng") != "eng")
    found = [citation.findall("Article/Abstract/AbstractText"), *(other.findall("AbstractText") for other in others)]
    return next((parts for parts in found if any(map(text_of, parts))), [])


def _version(pmid: Element | None) -> int:
    number = "" if pmid is None else pmid.get("Version", "")
    return int(number) if is_number(number) else 1


def _book(element: Element, xml: str) -> Article:
    document = element.find("BookDocument")
    if document is None:
        raise MalformedRecord("PubmedBookArticle: no BookDocument within")
    book = text_of(document.find("Book/BookTitle"))
    ids = _article_ids(document.findall("ArticleIdList/ArticleId"))
    changed = document.find("ContributionDate")
    return Article(
        pmid=whole(text_of(document.find("PMID")), "PMID"),
        xml=xml,
        title=text_of(document.find("ArticleTitle")) or book,
        abstract=_abstract(document.findall("Abstract/AbstractText")),
        journal=(book,) if book else (),
        date=date_of(changed) or date_of(document.find("Book/PubDate")),
        authors=_authors([*document.findall("AuthorList/Author"), *document.findall("Book/AuthorList/Author")]),
        types=_texts(document.findall("PublicationType")),
        mesh=(),
        mesh_major=(),
        keywords=_texts(document.findall("KeywordList/Keyword")),
        languages=_texts(document.findall("Language")),
        doi=ids.get("doi", ""),
        pmc=ids.get("pmc", ""),
    )


def _texts(elements: Iterable[Element | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for element in elements if (text := text_of(element))))


def _abstract(parts: list[Element]) -> str:
    """Return the paragraphs of an abstract, one a line, a labelled one as "LABEL: text"."""
    lines = []
    for part in parts:
        label, text = part.get("Label", ""), text_of(part)
        if text:
            lines.append(f"{label}: {text}" if label and label != "UNLABELLED" else text)
    return "\n".join(lines)


def _journal(citation: Element, article: Element) -> tuple[str, ...]:
    """Return the names and numbers by which a journal is searched: title, abbreviations, ISSNs."""
    journal = article.find("Journal")
    found = [] if journal is None else [journal.find(tag) for tag in ("Title", "ISOAbbreviation", "ISSN")]
    return _texts(
        [*found, citation.find("MedlineJournalInfo/MedlineTA"), citation.find("MedlineJournalInfo/ISSNLinking")]
    )


def _authors(elements: list[Element]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(name for author in elements if author.get("ValidYN") != "N" and (name := _author(author)))
    )


def _author(author: Element) -> str:
    last = text_of(author.find("LastName"))
    if not last:
        return text_of(author.find("CollectiveName")) or text_of(author.find("ForeName"))
    parts = (last, text_of(author.find("Initials")), text_of(author.find("Suffix")))
    return " ".join(part for part in parts if part)


def _is_major(heading: Element) -> bool:
    return any(part.get("MajorTopicYN") == "Y" for part in heading)


def _article_ids(elements: list[Element]) -> dict[str, str]:
    """Return the first value of each kind of id; PMC as "PMC123" however it is written."""
    found: dict[str, str] = {}
    for element in elements:
        found.setdefault(element.get("IdType", ""), text_of(element))
    if pmc := _PMC.fullmatch(found.pop("pmc", "")):
        found["pmc"] = f"PMC{pmc[1]}"
    return found


def _doi(article: Element) -> str:
    locations = article.findall("ELocationID")
    return next((text_of(at) for at in locations if at.get("EIdType") == "doi" and at.get("ValidYN") != "N"), "")


def _notices(elements: list[Element], kinds: frozenset[str]) -> tuple[str, ...]:
    return _texts(element.find("PMID") for element in elements if element.get("RefType") in kinds)
