"""Turn the rows of the sample's articles into PubMed records, which say of themselves whose words they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from retrieval.formats.pubmed_xml import article_of
from retrieval.formats.records import Article

# Readers and models see it wherever they see the abstract.
NOTICE: Final = (
    "This summary is not the authors' abstract: Arrowhead's maintainers wrote it from the facts of the article, and "
    "chose the headings. What the record lacks (authors, journal, year) is unknown here, not to the article."
)


def sample_article(row: Mapping[str, str]) -> Article:
    """Return the record of one row, with the XML that efetch sends.

    Raises:
        MalformedRecord: the PMID is no number.
        KeyError: a column is missing.
    """
    record = Element("PubmedArticle")
    citation = SubElement(record, "MedlineCitation", Status="PubMed-not-MEDLINE", Owner="NOTNLM")
    _put(citation, "PMID", row["pmid"])
    _article(SubElement(citation, "Article", PubModel="Print"), row)
    if row["journal"]:
        _put(SubElement(citation, "MedlineJournalInfo"), "MedlineTA", row["journal"])
    _retraction(citation, row["retracted_by"])
    headings = SubElement(citation, "MeshHeadingList")
    for name in _many(row["mesh"]):
        _put(SubElement(headings, "MeshHeading"), "DescriptorName", name, MajorTopicYN="N")
    _put(SubElement(citation, "KeywordList", Owner="NOTNLM"), "Keyword", row["topic"], MajorTopicYN="N")
    ids = SubElement(SubElement(record, "PubmedData"), "ArticleIdList")
    _put(ids, "ArticleId", row["pmid"], IdType="pubmed")
    return article_of(tostring(record, encoding="unicode"))


def _article(article: Element, row: Mapping[str, str]) -> None:
    journal = SubElement(article, "Journal")
    date = SubElement(SubElement(journal, "JournalIssue", CitedMedium="Internet"), "PubDate")
    if row["year"]:
        _put(date, "Year", row["year"])
    if row["journal"]:
        _put(journal, "ISOAbbreviation", row["journal"])
    _put(article, "ArticleTitle", row["title"])
    abstract = SubElement(article, "Abstract")
    _put(abstract, "AbstractText", row["summary"])
    _put(abstract, "CopyrightInformation", NOTICE)
    _put(article, "Language", row["language"])
    types = SubElement(article, "PublicationTypeList")
    for name in _many(row["types"]):
        _put(types, "PublicationType", name)


def _retraction(citation: Element, notice: str) -> None:
    if notice:
        comments = SubElement(citation, "CommentsCorrectionsList")
        retraction = SubElement(comments, "CommentsCorrections", RefType="RetractionIn")
        _put(retraction, "RefSource", "Retraction notice")
        _put(retraction, "PMID", notice)


def _put(parent: Element, tag: str, text: str, **attributes: str) -> None:
    SubElement(parent, tag, attributes).text = text


def _many(cell: str) -> tuple[str, ...]:
    return tuple(part for part in cell.split("|") if part)
