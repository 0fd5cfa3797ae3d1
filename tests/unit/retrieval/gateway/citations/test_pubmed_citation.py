"""Articles, retracted ones, chapters and bare ones, as summaries, MEDLINE records and abstracts."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from gateway_records import ARTICLES, BARE, CHAPTER, NOTICE, RETRACTED, STRUCTURED, call, summary

from retrieval.errors import GatewayDataError
from retrieval.gateway.citations.citation import Citation, abstract_text, issue_line, notice_name, source_line
from retrieval.gateway.citations.exports import medline_text
from retrieval.gateway.citations.pubmed_citation import citation_of, element_of
from retrieval.gateway.store.reader import GatewayStore

BY_XML = {article.xml: article for article in ARTICLES}
# NCBI's keys and their order, as its replies of 2024 and 2025 have them.
PUBMED_KEYS = [
    "uid", "pubdate", "epubdate", "source", "authors", "lastauthor", "title", "sorttitle", "volume", "issue",
    "pages", "lang", "nlmuniqueid", "issn", "essn", "pubtype", "recordstatus", "pubstatus", "articleids", "history",
    "references", "attributes", "pmcrefcount", "fulljournalname", "elocationid", "doctype", "srccontriblist",
    "booktitle", "medium", "edition", "publisherlocation", "publishername", "srcdate", "reportnumber",
    "availablefromurl", "locationlabel", "doccontriblist", "docdate", "bookname", "chapter", "sortpubdate",
    "sortfirstauthor", "vernaculartitle",
]  # fmt: skip


def citation(xml: str) -> Citation:
    return citation_of(element_of(BY_XML[xml]))


def test_a_pubmed_summary_has_ncbis_keys_in_their_order(store: GatewayStore) -> None:
    """Articles and chapters alike."""
    for uid in ("10000001", "10000004"):
        assert list(summary(store, "pubmed", uid)) == PUBMED_KEYS


def test_a_pubmed_summary_says_what_the_element_says(store: GatewayStore) -> None:
    """Plain words for the title, the last person for lastauthor, both ways of publication in pubstatus."""
    found = summary(store, "pubmed", "10000001")
    assert found["title"] == "The TP53 R175H & R273H variants: Zn2+ loss at pH < 7 in Li–Fraumeni syndrome."
    assert found["sorttitle"] == "tp53 r175h r273h variants zn2 loss at ph 7 in li fraumeni syndrome"
    assert [author["name"] for author in found["authors"]][-1] == "TP53 & Zinc Consortium"
    assert (found["lastauthor"], found["sortfirstauthor"]) == ("Hambrick GW Jr", "Müller-Österreich ŽA")
    assert (found["pubdate"], found["epubdate"], found["sortpubdate"]) == (
        "2021 Jan 8", "2020 Nov 5", "2021/01/08 00:00",
    )  # fmt: skip
    assert (found["pubstatus"], found["recordstatus"]) == ("256", "PubMed - indexed for MEDLINE")
    assert {"idtype": "pmcid", "idtypen": 5, "value": "pmc-id: PMC9000001;"} in found["articleids"]
    assert found["references"][0] == {
        "refsource": "Nat Rev Cancer. 2021 Mar;21(3):141", "reftype": "Comment in", "pmid": 10000009, "note": "",
    }  # fmt: skip


def test_a_retracted_article_says_so_in_every_form(store: GatewayStore) -> None:
    """Its type and the notice stand in the summary, the MEDLINE record and the abstract."""
    found = summary(store, "pubmed", "10000002")
    assert "Retracted Publication" in found["pubtype"]
    assert (found["references"][0]["reftype"], found["references"][0]["pmid"]) == ("Retraction in", 10000003)
    medline = call(store, "efetch", db="pubmed", id="10000002", rettype="medline").body
    assert "RIN - Lancet. 2010 Feb 6;375(9713):445. PMID: 10000003\n" in medline
    assert "RRI - Lancet. 2011;376:1\n" in medline
    text = call(store, "efetch", db="pubmed", id="10000002", rettype="abstract").body
    assert "\nRetraction in\n    Lancet. 2010 Feb 6;375(9713):445\n" in text


def test_a_chapter_is_summarised_with_its_book(store: GatewayStore) -> None:
    """Book, publisher, editors and the address at Bookshelf."""
    found = summary(store, "pubmed", "10000004")
    assert (found["doctype"], found["booktitle"]) == ("chapter", "GeneReviews®")
    assert (found["publishername"], found["srcdate"]) == ("University of Washington, Seattle", "1993-2024")
    assert [person["authtype"] for person in found["srccontriblist"]] == ["Editor"]
    assert found["availablefromurl"] == "http://www.ncbi.nlm.nih.gov/books/NBK1116/"
    assert (found["pubstatus"], found["recordstatus"], found["docdate"]) == ("ppublish", "PubMed", "1999 Jan 19")


def test_what_an_article_lacks_is_empty(store: GatewayStore) -> None:
    """No title, no authors, no abstract, no history: the keys are there, and nothing is made up."""
    found = summary(store, "pubmed", "10000005")
    assert (found["title"], found["authors"], found["history"], found["attributes"]) == ("", [], [], [])
    assert (found["lastauthor"], found["sortfirstauthor"], found["pubstatus"]) == ("", "", "")
    assert (found["lang"], found["vernaculartitle"]) == (["fre"], "Le zinc & nous.")


@pytest.mark.parametrize(
    ("xml", "source", "issue"),
    [
        (STRUCTURED, "Nucleic Acids Res. 2021 Jan 8;49(D1):D10-D18. doi: 10.1093/nar/gkaa001. Epub 2020 Nov 5.",
         "2021 Jan 8;49(D1):D10-D18"),
        (RETRACTED, "Lancet. 1998 Dec-1999 Jan;351(9103):637-41.", "1998 Dec-1999 Jan;351(9103):637-41"),
        (NOTICE, "Lancet. 2010 Feb 2:S0140-6736(10)60175-4. doi: 10.1016/S0140-6736(10)60175-4. "
         "Online ahead of print.", "2010 Feb 2:S0140-6736(10)60175-4"),
        (BARE, "Front Physiol. 2018 Aug 2;9:1033. eCollection 2018.", "2018 Aug 2;9:1033"),
    ],
)  # fmt: skip
def test_sources_are_written_as_nlm_does(xml: str, source: str, issue: str) -> None:
    """Print first, electronic first, ahead of print, and dates that are no dates."""
    assert (source_line(citation(xml)), issue_line(citation(xml))) == (source, issue)


def test_medline_lines_are_wrapped_at_87_columns(store: GatewayStore) -> None:
    """A broken line ends in a blank, and goes on after six of them."""
    body = medline_text(citation(STRUCTURED), element_of(ARTICLES[0]))
    lines = body.split("\n")
    assert max(len(line.rstrip()) for line in lines) <= 87
    broken = [first for first, second in pairwise(lines) if second.startswith("      ")]
    assert broken and all(line.endswith(" ") for line in broken)


@pytest.mark.parametrize(
    "line",
    [
        "DCOM- 20210705", "LR  - 20240229", "IS  - 0305-1048 (Linking)", "LID - 10.1093/nar/gkaa001 [doi]",
        "FAU - Hambrick, George W Jr", "AUID- ORCID: 0000-0002-1825-0097", "CN  - TP53 & Zinc Consortium",
        "SI  - GENBANK/AF307851", "GR  - R01 CA001/CA/NCI NIH HHS/United States", "DEP - 20201105",
        "RN  - J41CSQ7QDS (Zinc)", "MH  - Tumor Suppressor Protein p53/*genetics/metabolism",
        "MH  - *Li-Fraumeni Syndrome", "OT  - *zinc finger", "PMC - PMC9000001", "MID - NIHMS1519350",
        "EDAT- 2020/11/06 06:00", "PHST- 2020/08/01 00:00 [received]", "AID - 5900001 [pii]", "PST - ppublish",
    ],
)  # fmt: skip
def test_medline_has_the_tags_of_the_element(line: str) -> None:
    """Each as PubMed's own display writes it."""
    assert line in medline_text(citation(STRUCTURED), element_of(ARTICLES[0])).split("\n")


def test_medline_leaves_out_invalid_authors_and_cited_articles() -> None:
    """ValidYN=N marks a name that was wrong; "Cites" is a reference, not a comment."""
    body = medline_text(citation(STRUCTURED), element_of(ARTICLES[0]))
    assert "Wrong" not in body
    assert "Cell. 1997" not in body


def test_medline_of_a_chapter_has_the_tags_of_books() -> None:
    """Book title, publisher, editors, place and number at Bookshelf."""
    lines = medline_text(citation(CHAPTER), element_of(ARTICLES[3])).split("\n")
    expected = {"BTI - GeneReviews®", "PB  - University of Washington, Seattle", "FED - Adam, Margaret P",
                "PL  - Seattle (WA)", "AID - NBK1116 [bookaccession]"}  # fmt: skip
    assert expected <= set(lines)


def test_an_abstract_reads_as_pubmeds(store: GatewayStore) -> None:
    """Source, title, authors with their places, notices, labelled paragraphs, identifiers, conflicts."""
    assert abstract_text(citation(STRUCTURED), 1).split("\n\n") == [
        "1. Nucleic Acids Res. 2021 Jan 8;49(D1):D10-D18. doi: 10.1093/nar/gkaa001. Epub \n2020 Nov 5.",
        "The TP53 R175H & R273H variants: Zn2+ loss at pH < 7 in Li–Fraumeni syndrome.",
        "Müller-Österreich ŽA(1)(2), Hambrick GW Jr(2), TP53 & Zinc Consortium.",
        "Author information:\n(1)Universität Zürich, Switzerland.\n(2)Broad Institute, Cambridge, MA, USA.",
        "Comment in\n    Nat Rev Cancer. 2021 Mar;21(3):141\n"
        "Erratum in\n    Nucleic Acids Res. 2021 Jun 4;49(10):6002. doi: 10.1093/nar/gkab400.",
        "BACKGROUND: Müller's group found α-helices of p53 to unfold when zinc is lost at \n"
        "body temperature, as others had suggested for many years without showing it.\n"
        "RESULTS: Binding fell (P < 0.01) in 12 & 13.\nA last remark.",
        "© The Author(s) 2021.",
        "DOI: 10.1093/nar/gkaa001\nPMCID: PMC9000001\nPMID: 10000001 [Indexed for MEDLINE]",
        "Conflict of interest statement: Ž.A.M. holds shares of a zinc mine.\n",
    ]


def test_a_chapters_abstract_names_its_book() -> None:
    """The book with its years, title, authors."""
    text = abstract_text(citation(CHAPTER), 4).replace(" \n", " ")
    assert text.startswith("4. In: Adam MP, editor. GeneReviews®. Seattle (WA)")
    assert "\n\nLi-Fraumeni Syndrome.\n\nSchneider K.\n\n" in text


@pytest.mark.parametrize(
    "xml",
    ["", "<!DOCTYPE PubmedArticle [<!ENTITY a 'b'>]><PubmedArticle>&a;</PubmedArticle>", "<PubmedArticle>", "<x/>"],
)
def test_a_damaged_article_is_an_error_of_the_store(xml: str) -> None:
    """No document type is read, so no entity is expanded."""
    article = dataclasses.replace(ARTICLES[0], xml=xml)
    with pytest.raises(GatewayDataError, match="PMID 10000001"):
        element_of(article)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("CommentIn", "Comment in"), ("ExpressionOfConcernFor", "Expression of concern for"),
     ("RetractedandRepublishedFrom", "Retracted and republished from")],
)  # fmt: skip
def test_notices_are_named_in_words(kind: str, name: str) -> None:
    """NLM's RefTypes as PubMed prints them."""
    assert notice_name(kind) == name


def test_an_abstract_keeps_its_powers_and_may_be_the_other_one() -> None:
    """10<sup>6</sup> is no 106; a record without an abstract proper shows the one that it has in English."""
    abstract = "<{0}><AbstractText>5 × 10<sup>6</sup> cells, CO<sub>2</sub></AbstractText></{0}>"
    record = "<PubmedArticle><MedlineCitation><PMID>1</PMID><Article><ArticleTitle>T</ArticleTitle>{}</Article>{}"
    record += "</MedlineCitation></PubmedArticle>"
    for inside, behind in ((abstract.format("Abstract"), ""), ("", abstract.format("OtherAbstract"))):
        found = citation_of(ElementTree.fromstring(record.format(inside, behind)))
        assert "5 × 10⁶ cells, CO2" in abstract_text(found, 1)
