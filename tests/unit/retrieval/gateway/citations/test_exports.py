"""A PubMed record becomes a CSL-JSON item of its own facts alone."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from retrieval.gateway.citations.exports import citation_item
from retrieval.gateway.citations.pubmed_citation import citation_of
from retrieval.references.csl import reference_line

MYOCARDITIS = """<PubmedArticle><MedlineCitation Status="MEDLINE" Owner="NLM"><PMID>34281357</PMID>
<Article PubModel="Print-Electronic"><Journal><ISSN IssnType="Electronic">1524-4539</ISSN>
<JournalIssue><Volume>144</Volume><Issue>6</Issue><PubDate><Year>2021</Year><Month>Aug</Month><Day>10</Day></PubDate>
</JournalIssue><Title>Circulation</Title><ISOAbbreviation>Circulation</ISOAbbreviation></Journal>
<ArticleTitle>Myocarditis With COVID-19 <i>mRNA</i> Vaccines.</ArticleTitle>
<Pagination><MedlinePgn>471-484</MedlinePgn></Pagination>
<ELocationID EIdType="doi" ValidYN="Y">10.1161/CIRCULATIONAHA.121.056135</ELocationID>
<AuthorList><Author><LastName>Bozkurt</LastName><ForeName>Biykem</ForeName><Initials>B</Initials></Author>
<Author><LastName>Kamat</LastName><ForeName>Ishan</ForeName><Initials>I</Initials></Author>
<Author><LastName>Hotez</LastName><ForeName>Peter J</ForeName><Initials>PJ</Initials></Author></AuthorList>
<Language>eng</Language></Article><MedlineJournalInfo><MedlineTA>Circulation</MedlineTA></MedlineJournalInfo>
</MedlineCitation><PubmedData><ArticleIdList><ArticleId IdType="pubmed">34281357</ArticleId>
<ArticleId IdType="pmc">PMC8340726</ArticleId></ArticleIdList>
<ReferenceList><Reference><Citation>Su JR. Myopericarditis after vaccination. Vaccine. 2021;39:839.</Citation>
<ArticleIdList><ArticleId IdType="pubmed">33422381</ArticleId><ArticleId IdType="doi">10.1016/j.foreign</ArticleId>
</ArticleIdList></Reference></ReferenceList></PubmedData></PubmedArticle>"""

CHAPTER = """<PubmedBookArticle><BookDocument><PMID>20301425</PMID><ArticleIdList>
<ArticleId IdType="bookaccession">NBK1247</ArticleId></ArticleIdList><Book><Publisher>
<PublisherName>University of Washington, Seattle</PublisherName>
<PublisherLocation>Seattle (WA)</PublisherLocation></Publisher><BookTitle book="gene">GeneReviews(®)</BookTitle>
<PubDate><Year>1993</Year></PubDate><AuthorList Type="editors"><Author><LastName>Adam</LastName>
<ForeName>Margaret P</ForeName><Initials>MP</Initials></Author></AuthorList></Book>
<ArticleTitle book="gene" part="brca1">BRCA1- and BRCA2-Associated Cancer.</ArticleTitle>
<Language>eng</Language><AuthorList Type="authors"><Author><LastName>Petrucelli</LastName>
<ForeName>Nancy</ForeName><Initials>N</Initials></Author></AuthorList>
<ContributionDate><Year>1998</Year><Month>9</Month><Day>4</Day></ContributionDate></BookDocument></PubmedBookArticle>"""


def item_of(xml: str) -> dict[str, Any]:
    return citation_item(citation_of(ElementTree.fromstring(xml)))


def article(inner: str, outer: str = "") -> dict[str, Any]:
    return item_of(
        f"<PubmedArticle><MedlineCitation><PMID>7</PMID><Article>{inner}</Article>{outer}</MedlineCitation></PubmedArticle>"
    )


def test_an_article_is_cited_as_itself_and_not_as_the_first_of_its_references() -> None:
    """The paper's own code prints the article's first reference, which makes 4 of its 12 shown articles others'."""
    item = item_of(MYOCARDITIS)
    text = reference_line(item)
    assert "Bozkurt" in text
    assert "Myocarditis With COVID-19 mRNA Vaccines" in text
    assert "10.1161/CIRCULATIONAHA.121.056135" in text
    for foreign in ("Su JR", "Myopericarditis", "33422381", "j.foreign"):
        assert foreign not in text
        assert foreign not in str(item)


def test_all_facts_of_an_article_stand_in_its_item() -> None:
    assert item_of(MYOCARDITIS) == {
        "id": "pmid:34281357",
        "type": "article-journal",
        "title": "Myocarditis With COVID-19 mRNA Vaccines",
        "author": [
            {"family": "Bozkurt", "given": "Biykem"},
            {"family": "Kamat", "given": "Ishan"},
            {"family": "Hotez", "given": "Peter J"},
        ],
        "container-title": "Circulation",
        "container-title-short": "Circulation",
        "volume": "144",
        "issue": "6",
        "page": "471-484",
        "ISSN": "1524-4539",
        "issued": {"date-parts": [[2021, 8, 10]]},
        "DOI": "10.1161/CIRCULATIONAHA.121.056135",
        "PMID": "34281357",
        "PMCID": "PMC8340726",
        "URL": "https://pubmed.ncbi.nlm.nih.gov/34281357/",
        "language": "eng",
    }


def test_a_chapter_has_its_own_date_and_names_book_and_editors() -> None:
    item = item_of(CHAPTER)
    assert (item["type"], item["container-title"]) == ("chapter", "GeneReviews(®)")
    assert item["editor"] == [{"family": "Adam", "given": "Margaret P"}]
    assert item["issued"] == {"date-parts": [[1998, 9, 4]]}
    assert "DOI" not in item


def test_a_group_is_an_author_beside_persons() -> None:
    item = article(
        "<AuthorList><Author><CollectiveName>RECOVERY Collaborative Group</CollectiveName></Author>"
        "<Author><LastName>Horby</LastName><ForeName>Peter</ForeName><Initials>P</Initials></Author></AuthorList>"
    )
    assert item["author"] == [{"literal": "RECOVERY Collaborative Group"}, {"family": "Horby", "given": "Peter"}]


def test_an_author_marked_as_invalid_is_left_out() -> None:
    item = article("<AuthorList><Author ValidYN='N'><LastName>Wrong</LastName></Author></AuthorList>")
    assert "author" not in item


def test_a_suffix_is_no_given_name() -> None:
    item = article(
        "<AuthorList><Author><LastName>King</LastName><ForeName>Martin L</ForeName><Initials>ML</Initials>"
        "<Suffix>Jr</Suffix></Author></AuthorList>"
    )
    assert item["author"] == [{"family": "King", "given": "Martin L", "suffix": "Jr"}]


@pytest.mark.parametrize(
    ("date", "parts"),
    [
        ("<Year>2003</Year><Month>05</Month><Day>02</Day>", [2003, 5, 2]),
        ("<Year>2003</Year><Season>Spring</Season>", [2003]),
        ("<MedlineDate>1998 Dec-1999 Jan</MedlineDate>", [1998, 12]),
        ("<Year>2003</Year>", [2003]),
        ("", None),
        ("<MedlineDate>undated</MedlineDate>", None),
    ],
)
def test_a_date_is_as_exact_as_the_record(date: str, parts: list[int] | None) -> None:
    item = article(f"<Journal><JournalIssue><PubDate>{date}</PubDate></JournalIssue></Journal>")
    assert item.get("issued") == (None if parts is None else {"date-parts": [parts]})


def test_a_title_that_is_not_there_is_the_vernacular_one() -> None:
    item = article("<ArticleTitle>[Not Available].</ArticleTitle><VernacularTitle>Über den Schlaf.</VernacularTitle>")
    assert item["title"] == "Über den Schlaf"


def test_what_was_retracted_says_so_with_the_notice() -> None:
    notice = (
        "<CommentsCorrectionsList><CommentsCorrections RefType='RetractionIn'><RefSource>Lancet. 2010</RefSource>"
        "<PMID>20137807</PMID></CommentsCorrections></CommentsCorrectionsList>"
    )
    assert article("<ArticleTitle>X.</ArticleTitle>", notice)["note"] == "Retracted (PMID 20137807)"
    marked = "<PublicationTypeList><PublicationType>Retracted Publication</PublicationType></PublicationTypeList>"
    assert article(marked)["note"] == "Retracted"
    assert "note" not in article("<ArticleTitle>X.</ArticleTitle>")


def test_a_record_of_nothing_but_its_number_gives_an_item() -> None:
    item = item_of("<PubmedArticle><MedlineCitation><PMID>7</PMID></MedlineCitation></PubmedArticle>")
    assert item["id"] == "pmid:7"
    assert reference_line(item) == "[Untitled]. PMID: 7."
