"""PubMed's XML: what is read of a record, and what a hostile or broken file can do."""

from __future__ import annotations

import gzip
import html
import io
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from Bio import Entrez
from ncbi_files import BILLION_LAUGHS, EXTERNAL_ENTITY, entries, items, pubmed_record, pubmed_set, reasons, saved

from retrieval.errors import ImportFileError
from retrieval.formats import pubmed_xml
from retrieval.formats.items import Bad, Good, Item, medline_date
from retrieval.formats.records import Article, Removal
from retrieval.formats.sources import Source
from scripts.samples import pubmed
from scripts.samples.world import World


def _plain(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", markup))


def _article(tmp_path: Path, record: str) -> Article:
    (found,) = entries("pubmed", saved(tmp_path / "file.xml", pubmed_set(record)))
    assert isinstance(found, Article)
    return found


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Article], list[pubmed.ArticleFacts]]:
    world = World(genes=30, articles=300)
    path = tmp_path_factory.mktemp("pubmed") / "pubmed26n0001.xml.gz"
    pubmed.write_articles(path, pubmed.articles(world))
    return [e for e in entries("pubmed", path) if isinstance(e, Article)], list(pubmed.articles(world))


def test_records_come_back_as_they_were_written(sample: tuple[list[Article], list[pubmed.ArticleFacts]]) -> None:
    """Titles with markup and entities, labelled abstracts, authors in every script, notices."""
    found, facts = sample
    assert len(found) == len(facts) == 300
    for article, fact in zip(found, facts, strict=True):
        assert article.pmid == fact.pmid
        assert article.title == _plain(fact.title or fact.vernacular)
        expected = (f"{label}: {_plain(text)}" if label else _plain(text) for label, text in fact.abstract)
        assert article.abstract == "\n".join(expected)
        people = [f"{last} {pubmed.initials(fore)}" for last, fore in fact.authors]
        assert article.authors == tuple(dict.fromkeys([*people, *filter(None, [fact.collective])]))
        assert article.mesh == tuple(dict.fromkeys(name for name, _, _ in fact.headings))
        assert article.mesh_major == tuple(dict.fromkeys(name for name, major, _ in fact.headings if major))
        assert article.types == tuple(name for _, name in fact.types)
        assert article.doi == pubmed.doi(fact.pmid)
        assert article.pmc == (f"PMC{fact.pmid}" if fact.pmid % 3 == 0 else "")
        retracting = tuple(str(pmid) for kind, pmid in fact.notices if kind == "RetractionIn")
        assert article.retracted_by == retracting
        corrections = ("ErratumIn", "ExpressionOfConcernIn", "UpdateIn")
        assert article.corrected_by == tuple(str(pmid) for kind, pmid in fact.notices if kind in corrections)
        assert article.xml == pubmed.record(fact).rstrip("\n")


def test_the_sample_holds_what_real_files_hold(sample: tuple[list[Article], list[pubmed.ArticleFacts]]) -> None:
    """Else the test above would prove little."""
    found, facts = sample
    assert any(article.retracted_by for article in found)
    assert any(article.corrected_by for article in found)
    assert any(not article.abstract for article in found)
    assert any(fact.collective for fact in facts)
    assert any(not fact.date[0].isdigit() for fact in facts)
    assert {"ger", "eng"} == {language for article in found for language in article.languages}


def test_biopython_reads_the_same_out_of_the_stored_xml(
    sample: tuple[list[Article], list[pubmed.ArticleFacts]],
) -> None:
    """Against the DTD of PubMed, which Biopython ships."""
    found, _ = sample
    text = pubmed.PROLOG + "".join(article.xml for article in found[:60]) + pubmed.END
    read: Any = Entrez.read(io.BytesIO(text.encode()))
    assert len(read["PubmedArticle"]) == 60
    for article, record in zip(found, read["PubmedArticle"], strict=False):
        citation = record["MedlineCitation"]
        assert int(citation["PMID"]) == article.pmid
        given = citation["Article"]["ArticleTitle"]
        assert article.title in (_plain(given), _plain(citation["Article"].get("VernacularTitle", "")))
        assert [str(name["DescriptorName"]) for name in citation.get("MeshHeadingList", [])] == [
            name.text for name in ElementTree.fromstring(article.xml).iter("DescriptorName")
        ]


def test_an_update_file_brings_a_book_chapter_and_withdrawals(tmp_path: Path) -> None:
    """A Removal for each PMID of a DeleteCitation."""
    world = World(articles=50)
    withdrawn = pubmed.write_update(tmp_path / "pubmed26n0002.xml.gz", world)
    found = entries("pubmed", tmp_path / "pubmed26n0002.xml.gz")
    assert found[-3:] == [Removal("pubmed", str(pmid)) for pmid in withdrawn]
    book = found[5]
    assert isinstance(book, Article)
    assert (book.pmid, book.date, book.journal) == (99_000_001, "2001-02-03", ("Invented Reviews",))
    assert book.authors == ("Ito K", "Müller A")
    assert book.abstract == "CLINICAL CHARACTERISTICS: An invented disorder."
    assert book.types == ("Review",)


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("1998 Dec-1999 Jan", "1998-12"),
        ("1978 Jul 15-31", "1978-07-15"),
        ("2000 Spring", "2000"),
        ("Winter 2003", "2003"),
        ("1985-1986", "1985"),
        ("2012 Mar-Apr", "2012-03"),
        ("2011 Aug. 3", "2011-08-03"),
        ("2001 Jul 99", "2001-07"),
        ("no date", ""),
        ("12345", ""),
    ],
)
def test_a_medline_date_gives_its_first_date(text: str, date: str) -> None:
    """As far as it is one."""
    assert medline_date(text) == date


@pytest.mark.parametrize(
    ("parts", "date"),
    [
        ("<Year>2001</Year><Month>Jul</Month><Day>2</Day>", "2001-07-02"),
        ("<Year>2001</Year><Month>07</Month>", "2001-07"),
        ("<Year>2001</Year><Season>Summer</Season>", "2001"),
        (f"<Year>2001</Year><Month>{'9' * 5000}</Month>", "2001"),
        ("<Year>soon</Year>", ""),
    ],
)
def test_a_date_is_as_exact_as_it_is_given(tmp_path: Path, parts: str, date: str) -> None:
    """Months are words or numbers."""
    record = pubmed_record().replace("<Year>2001</Year>", parts)
    assert _article(tmp_path, record).date == date


def test_only_the_records_own_identifiers_count(tmp_path: Path) -> None:
    """References have article ids too; an invalid DOI is none."""
    reference = (
        '<ReferenceList><Reference><ArticleIdList><ArticleId IdType="doi">10.1/other</ArticleId></ArticleIdList>'
        "</Reference></ReferenceList>"
    )
    location = '<ELocationID EIdType="doi" ValidYN="N">10.1/wrong</ELocationID>'
    location += '<ELocationID EIdType="doi">10.1/own</ELocationID>'
    assert _article(tmp_path, pubmed_record(inner=location, data=reference)).doi == "10.1/own"


def test_an_author_marked_as_wrong_is_left_out(tmp_path: Path) -> None:
    """PubMed keeps the erroneous form beside the right one."""
    authors = (
        '<AuthorList><Author ValidYN="N"><LastName>Wrnog</LastName></Author><Author><LastName>Right</LastName>'
        "<Initials>AB</Initials><Suffix>Jr</Suffix></Author></AuthorList>"
    )
    assert _article(tmp_path, pubmed_record(inner=authors)).authors == ("Right AB Jr",)


def test_a_qualifier_can_make_a_heading_major(tmp_path: Path) -> None:
    """The heading's own mark is then N."""
    record = pubmed_record().replace(
        "</MedlineCitation>",
        '<MeshHeadingList><MeshHeading><DescriptorName MajorTopicYN="N">Neoplasms</DescriptorName>'
        '<QualifierName MajorTopicYN="Y">genetics</QualifierName></MeshHeading></MeshHeadingList></MedlineCitation>',
    )
    assert _article(tmp_path, record).mesh_major == ("Neoplasms",)


def test_the_line_is_where_the_record_begins(tmp_path: Path) -> None:
    """Counted over the whole file."""
    text = (
        "<?xml version='1.0'?>\n\n<PubmedArticleSet>\n"
        + pubmed_record("1")
        + "\n<!-- a\nremark -->"
        + pubmed_record("2")
    )
    found = items("pubmed", saved(tmp_path / "file.xml", text + "</PubmedArticleSet>"))
    assert [item.line for item in found] == [4, 7]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (pubmed_record("x"), "PMID: a number was expected, not 'x'"),
        (pubmed_record(title="<b>never closed"), "mismatched tag"),
        (pubmed_record(title="a & b"), "not well-formed"),
        (pubmed_record(title="&alpha;"), "undefined entity"),
        ("<PubmedArticle><MedlineCitation/></PubmedArticle>", "no MedlineCitation with an Article"),
        ("<PubmedArticle/>", "no MedlineCitation"),
        ("<PubmedBookArticle></PubmedBookArticle>", "no BookDocument"),
        ("<DeleteCitation><PMID>x</PMID></DeleteCitation>", "PMID"),
        ("<Other>text</Other>", "an element <Other> is not expected here"),
        ("stray words ", "text between records: 'stray words"),
        (pubmed_record().replace("</PubmedArticle>", ""), "begins again before it is closed"),
    ],
)
def test_a_broken_record_is_told_and_the_next_one_read(tmp_path: Path, broken: str, reason: str) -> None:
    """A record is parsed apart from the others."""
    path = saved(tmp_path / "file.xml", pubmed_set(pubmed_record("1"), broken, pubmed_record("2")))
    first, second, third = items("pubmed", path)
    assert isinstance(second, Bad)
    assert second.line == 3
    assert reason in second.reason
    assert [
        item.entry.pmid for item in (first, third) if isinstance(item, Good) and isinstance(item.entry, Article)
    ] == [1, 2]


def test_a_record_in_latin1_is_malformed(tmp_path: Path) -> None:
    """The others are read."""
    data = pubmed_set(pubmed_record("1", title="Müller")).encode("latin-1")
    ((_, reason),) = reasons("pubmed", saved(tmp_path / "file.xml", data))
    assert "not well-formed (invalid token)" in reason


@pytest.mark.parametrize("text", [BILLION_LAUGHS, EXTERNAL_ENTITY])
def test_a_file_that_declares_entities_is_refused(tmp_path: Path, text: str) -> None:
    """Before anything is yielded, and without reading what they point to."""
    with pytest.raises(ImportFileError, match="declares entities"):
        items("pubmed", saved(tmp_path / "file.xml", text))


def test_the_document_type_of_pubmed_is_allowed_and_not_fetched(tmp_path: Path) -> None:
    """Every baseline file has it."""
    assert len(entries("pubmed", saved(tmp_path / "file.xml.gz", pubmed.PROLOG + pubmed_record() + pubmed.END))) == 1


@pytest.mark.parametrize("behind", ["", "\n  ", "<PubmedArticle>\n<Medline", "<", "<!-- open"])
def test_a_cut_file_gives_its_whole_records_and_then_an_error(tmp_path: Path, behind: str) -> None:
    """What is there is sound; that it is not all must be known."""
    path = saved(tmp_path / "file.xml", "<PubmedArticleSet>\n" + pubmed_record("1") + behind)
    seen: list[Item] = []
    with pytest.raises(ImportFileError, match=r"file\.xml: line \d: .*it is cut"):
        seen.extend(pubmed_xml.read(Source(path)))
    assert len(seen) == 1


def test_a_cut_gzip_gives_its_whole_records_and_then_an_error(tmp_path: Path) -> None:
    """The usual result of a broken download."""
    world = World(articles=200)
    path = tmp_path / "pubmed26n0001.xml.gz"
    pubmed.write_articles(path, pubmed.articles(world))
    path.write_bytes(path.read_bytes()[:-20000])
    seen: list[Item] = []
    with pytest.raises(ImportFileError, match="the file is cut"):
        seen.extend(pubmed_xml.read(Source(path, chunk=4096)))
    assert 20 < len(seen) < 200


def test_a_record_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    """A small gzip can hold gigabytes."""
    data = b"<PubmedArticleSet><PubmedArticle><MedlineCitation>" + b" " * 18_000_000
    (tmp_path / "file.xml.gz").write_bytes(gzip.compress(data, 1))
    with pytest.raises(ImportFileError, match="does not come within 16777216 bytes"):
        items("pubmed", tmp_path / "file.xml.gz")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<?xml version='1.0' encoding='iso-8859-1'?><PubmedArticleSet/>", "the encoding is iso-8859-1"),
        ("<eSummaryResult></eSummaryResult>", "<PubmedArticleSet> was expected"),
        ("PMID- 1\n", "<PubmedArticleSet> was expected, not 'PMID- 1"),
        (pubmed_set() + "<more/>", "after the end of the document comes '<more/>"),
        (pubmed_record(), "<PubmedArticleSet> was expected, not '<PubmedArticle>"),
    ],
)
def test_another_document_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """By its root element or its encoding."""
    with pytest.raises(ImportFileError, match=re.escape(reason)):
        items("pubmed", saved(tmp_path / "file.xml", text))


def test_an_empty_set_has_no_records(tmp_path: Path) -> None:
    """In either way of writing it."""
    assert items("pubmed", saved(tmp_path / "file.xml", "<PubmedArticleSet></PubmedArticleSet>\n")) == []
    assert items("pubmed", saved(tmp_path / "file.xml", "\ufeff<PubmedArticleSet/>")) == []


def test_where_there_is_no_abstract_the_other_one_is_read_in_english(tmp_path: Path) -> None:
    """As articles in other languages have it; an abstract proper always comes first."""
    others = "".join(
        f'<OtherAbstract Language="{language}"><AbstractText>{text}</AbstractText></OtherAbstract>'
        for language, text in (("ger", "Auf Deutsch."), ("eng", "In English."))
    )
    record = pubmed_record().replace("</MedlineCitation>", f"{others}</MedlineCitation>")
    assert _article(tmp_path, record).abstract == "In English."
    proper = "<Abstract><AbstractText>Proper.</AbstractText></Abstract></Article>"
    assert _article(tmp_path, record.replace("</Article>", proper)).abstract == "Proper."


@pytest.mark.parametrize(("attribute", "version"), [('Version="3"', 3), ("", 1), ('Version="x"', 1)])
def test_a_record_has_its_version(tmp_path: Path, attribute: str, version: int) -> None:
    """Which of two texts of one PMID is the newer."""
    assert _article(tmp_path, pubmed_record().replace('Version="1"', attribute)).version == version
