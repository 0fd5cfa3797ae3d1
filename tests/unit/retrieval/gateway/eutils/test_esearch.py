"""What esearch makes of a call: fields, languages, filters, dates, earlier searches, other spellings."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from retrieval.formats.records import Article, Entry, Gene, Organism, Removal
from retrieval.gateway.app import answer
from retrieval.gateway.eutils.history import History
from retrieval.gateway.store.reader import SCHEMA_VERSION, SITE, GatewayStore, create_tables
from retrieval.gateway.store.writer import StoreWriter

HUMAN = Organism(9606, "Homo sapiens", "human")
ELECTRONIC = (
    "<PubmedArticle><Article><ArticleDate DateType='Electronic'><Year>2016</Year><Month>9</Month><Day>15</Day>"
    "</ArticleDate></Article></PubmedArticle>"
)


def article(pmid: int, title: str, abstract: str = "", date: str = "2010-05-02", **fields: object) -> Article:
    empty: dict[str, object] = dict.fromkeys(
        ("journal", "authors", "types", "mesh", "mesh_major", "keywords", "languages"), ()
    )
    values = {"xml": "", "abstract": abstract, "date": date} | empty | fields
    return Article(pmid=pmid, title=title, **values)  # type: ignore[arg-type]


def gene(uid: int, symbol: str, *aliases: str) -> Gene:
    return Gene(gene_id=uid, symbol=symbol, name=f"{symbol} thing", organism=HUMAN, aliases=aliases)


def days_ago(days: int) -> str:
    return (datetime.now(UTC).date() - timedelta(days=days)).isoformat()


RECORDS = (
    article(1, "Telomere length and cancer.", "An early event in tumorigenesis.", "2024", languages=("eng",)),
    article(2, "Tumorigenesis of a telomere", date="2016-11-10", xml=ELECTRONIC, languages=("fre",)),
    article(3, "TGF-β1 in Li–Fraumeni syndrome", "IL‐6 and NF-kappaB rise.", days_ago(100)),
    article(4, "An electronic article at the turn of a year", date="2017-01-20", xml=ELECTRONIC),
    gene(7040, "TGFB1", "TGF-beta1"),
    gene(3569, "IL6", "IL-6"),
    gene(3458, "IFNG", "IFN-γ"),
    gene(4790, "NFKB1", "NF-kappaB"),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayStore]:
    opened = GatewayStore(filled(tmp_path_factory.mktemp("store") / "gateway.sqlite"))
    yield opened
    opened.close()


def filled(path: Path) -> Path:
    connection = sqlite3.connect(path)
    with connection:
        create_tables(connection)
        meta = {"schema": SCHEMA_VERSION, "kind": SITE, "fingerprint": "0123456789abcdef"}
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        writer = StoreWriter(connection)
        for record in RECORDS:
            writer.put(record)
    connection.close()
    return path


def found(store: GatewayStore, db: str, term: str, history: History | None = None, **params: str) -> list[str]:
    reply = answer(store, "esearch", {"db": db, "term": term, "retmode": "json", **params}, history)
    return sorted(json.loads(reply.body)["esearchresult"]["idlist"])


@pytest.mark.parametrize(
    ("term", "field", "expected"),
    [
        ("tumorigenesis", "", ["1", "2"]),
        ("tumorigenesis", "title", ["2"]),
        ("tumorigenesis telomere", "title", ["2"]),
        ("tumorigenesis OR cancer", "ti", ["1", "2"]),
        ("tumorigenesis[abstract] AND telomere", "title", ["1"]),
    ],
)
def test_words_without_a_tag_are_searched_in_the_field_of_the_call(
    store: GatewayStore, term: str, field: str, expected: list[str]
) -> None:
    """``field=title`` is [title] behind each word; a tag in the term wins."""
    assert found(store, "pubmed", term, field=field) == expected


def test_a_field_that_the_database_lacks_is_told(store: GatewayStore) -> None:
    """As for a tag in the term."""
    reply = answer(store, "esearch", {"db": "pubmed", "term": "telomere", "field": "foo", "retmode": "json"})
    assert json.loads(reply.body)["esearchresult"]["errorlist"]["fieldsnotfound"] == ["foo"]


@pytest.mark.parametrize("term", ["english[la]", "English[lang]", "eng[la]", "english[Language]"])
def test_a_language_is_found_by_its_name_and_its_code(store: GatewayStore, term: str) -> None:
    """PubMed's records have the code, its users write the name."""
    assert found(store, "pubmed", term) == ["1"]
    assert found(store, "pubmed", "french[la] NOT english[la]") == ["2"]


@pytest.mark.parametrize("db", ["pubmed", "gene"])
@pytest.mark.parametrize("term", ["all[filter]", "all[sb]"])
def test_all_is_a_filter_that_every_record_passes(store: GatewayStore, db: str, term: str) -> None:
    """In every database, alone and in a combination."""
    assert len(found(store, db, term)) == 4
    assert found(store, "pubmed", f"telomere AND {term}") == ["1", "2"]
    assert found(store, "snp", term) == []


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ('"last 10 years"[dp] NOT 2017[dp] NOT 2024[dp] NOT 2016[dp]', ["3"]),
        ('"last 5 months"[pdat]', ["3"]),
        ('"last 30 days"[dp]', []),
        ('"the last 1 year"[dp]', ["3"]),
    ],
)
def test_relative_dates_count_back_from_today(store: GatewayStore, term: str, expected: list[str]) -> None:
    """Days, months and years."""
    assert found(store, "pubmed", term) == expected


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ("2016/09[dp]", ["2", "4"]),
        ("2016/09/15[dp]", ["2", "4"]),
        ("2016/11[dp]", ["2"]),
        ("2016[dp]", ["2", "4"]),
        ("2016/09/01:2016/10/01[pdat]", ["2", "4"]),
        ("2016/09[epdat]", ["2", "4"]),
        ("2016/09[ppdat]", []),
        ("2017/01[ppdat]", ["4"]),
        ("2017[dep]", []),
    ],
)
def test_a_date_of_publication_is_that_of_the_issue_or_the_electronic_one(
    store: GatewayStore, term: str, expected: list[str]
) -> None:
    """[epdat] and [ppdat] are one of them each."""
    assert found(store, "pubmed", term) == expected
    assert found(store, "pubmed", "all[filter]", mindate="2016/09/15", maxdate="2016/09/15") == ["2", "4"]


def test_earlier_searches_are_parts_of_a_term(store: GatewayStore) -> None:
    """By their keys in the WebEnv, with their fields, in the term and as query_key."""
    history = History()
    first = {"db": "pubmed", "term": "tumorigenesis", "field": "title", "usehistory": "y", "retmode": "json"}
    environment = json.loads(answer(store, "esearch", first, history).body)["esearchresult"]["webenv"]

    assert found(store, "pubmed", "#1 AND telomere", history, webenv=environment) == ["2"]
    assert found(store, "pubmed", "telomere NOT #1", history, webenv=environment) == ["1"]
    assert found(store, "pubmed", "telomere", history, webenv=environment, query_key="1") == ["2"]
    second = {"db": "pubmed", "term": "all[filter] NOT #1", "usehistory": "y", "webenv": environment, "retmode": "json"}
    answer(store, "esearch", second, history)
    assert found(store, "pubmed", "#2 AND telomere", history, webenv=environment) == ["1"]
    posted = answer(store, "epost", {"db": "pubmed", "id": "1,3", "webenv": environment}, history)
    assert "<QueryKey>3</QueryKey>" in posted.body
    assert found(store, "pubmed", "#3", history, webenv=environment) == ["1", "3"]


@pytest.mark.parametrize(("term", "db"), [("#9 AND telomere", "pubmed"), ("#1 AND TGFB1", "gene")])
def test_a_search_that_is_not_there_is_an_error(store: GatewayStore, term: str, db: str) -> None:
    """An unknown key, or a search of another database: never an empty result."""
    history = History()
    first = {"db": "pubmed", "term": "telomere", "usehistory": "y", "retmode": "json"}
    environment = json.loads(answer(store, "esearch", first, history).body)["esearchresult"]["webenv"]

    reply = answer(store, "esearch", {"db": db, "term": term, "webenv": environment, "retmode": "json"}, history)
    assert "Unable to obtain query #" in json.loads(reply.body)["esearchresult"]["ERROR"]


@pytest.mark.parametrize("written", [{}, {"db": ""}])
def test_pubmed_is_the_database_of_a_call_that_names_none(store: GatewayStore, written: dict[str, str]) -> None:
    """As at NCBI, in every call."""
    reply = answer(store, "esearch", {"term": "telomere", "retmode": "json", **written})
    assert sorted(json.loads(reply.body)["esearchresult"]["idlist"]) == ["1", "2"]
    assert "<Database>pubmed</Database>" in answer(store, "espell", {"term": "telomeer", **written}).body
    assert "cannot get document summary" in answer(store, "esummary", {"id": "99", "retmode": "json", **written}).body


@pytest.mark.parametrize(
    ("db", "term", "expected"),
    [
        ("gene", "TGF-β1", ["7040"]),
        ("gene", "TGF-beta1", ["7040"]),
        ("gene", "IL‑6", ["3569"]),
        ("gene", "IL−6[sym]", ["3569"]),
        ("gene", "NF-κB", ["4790"]),
        ("gene", "IFN-gamma", ["3458"]),
        ("gene", "IFN-γ", ["3458"]),
        ("gene", "IFN‐γ[gene]", ["3458"]),
        ("pubmed", "TGF-beta1", ["3"]),
        ("pubmed", "TGF-β1[ti]", ["3"]),
        ("pubmed", "Li-Fraumeni", ["3"]),
        ("pubmed", "Li–Fraumeni[ti]", ["3"]),
        ("pubmed", "NF-κB[tiab]", ["3"]),
        ("pubmed", "IL-6", ["3"]),
    ],
)
@pytest.mark.parametrize("sort", ["", "relevance"])
def test_greek_letters_and_hyphens_are_found_however_they_are_written(
    store: GatewayStore, db: str, term: str, expected: list[str], sort: str
) -> None:
    """In the term and in the record."""
    assert found(store, db, term, sort=sort) == expected


CITED = """<MeshHeadingList>
<MeshHeading><DescriptorName UI="D001249">Asthma</DescriptorName>
<QualifierName MajorTopicYN="Y" UI="Q000188">drug therapy</QualifierName>
<QualifierName>diet therapy</QualifierName></MeshHeading>
<MeshHeading><DescriptorName>Migraine Disorders</DescriptorName>
<QualifierName>prevention &amp; control</QualifierName>
<QualifierName>injuries</QualifierName></MeshHeading></MeshHeadingList>
<AffiliationInfo><Affiliation>Dept. of Medicine, Université de Genève.</Affiliation></AffiliationInfo>"""


@pytest.fixture
def cited(tmp_path: Path) -> Iterator[GatewayStore]:
    """Its second article has the headings of the first without their subheadings."""
    path = filled(tmp_path / "gateway.sqlite")
    headings = ("Asthma", "Migraine Disorders")
    _put(path, article(11, "One", xml=CITED, mesh=headings), article(12, "Two", mesh=headings))
    opened = GatewayStore(path)
    yield opened
    opened.close()


def _put(path: Path, *entries: Entry) -> None:
    connection = sqlite3.connect(path)
    with connection:
        writer = StoreWriter(connection)
        for entry in entries:
            writer.put(entry)
    connection.close()


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ('"asthma/drug therapy"[mh]', ["11"]),
        ("Asthma/drug therapy[mesh]", ["11"]),
        ("asthma/diet*[mh]", ["11"]),
        ("asthma/dt[mh]", ["11"]),
        ("Asthma/DT[MeSH]", ["11"]),
        ('"asthma/dh"[MeSH Terms]', ["11"]),
        ("asthma/therapy[mh]", ["11"]),
        ("asthma/th[mh:noexp]", []),
        ("asthma/su[mh]", []),
        ("asthma/drug[mh]", []),
        ("migraine disorders/pc[majr]", []),
        ("migraine disorders/prevention and control[mh]", ["11"]),
        ("migraine disorders/dt[mh]", []),
        ("th[sh]", ["11"]),
        ("in[sh]", ["11"]),
        ("migraine disorders/in[mh]", ["11"]),
        ("therapy[sh:noexp]", []),
        ("asthma[mh]", ["11", "12"]),
        ("migraine disorders/drug therapy[mh]", []),
        ("asthma[mh] NOT asthma/drug therapy[mh]", ["12"]),
        ('"prevention & control"[sh]', ["11"]),
        ("drug therapy[Subheading] AND migraine disorders[mh]", ["11"]),
        ("surgery[sh]", []),
        ("universite de geneve[ad]", ["11"]),
        ("genève[Affiliation] AND medicine[ad]", ["11"]),
        ("basel[ad]", []),
    ],
)
def test_subheadings_and_affiliations_are_found(cited: GatewayStore, term: str, expected: list[str]) -> None:
    """A subheading behind its heading alone, or by itself."""
    assert found(cited, "pubmed", term) == expected


def test_words_of_a_replaced_or_removed_article_are_gone(cited: GatewayStore) -> None:
    """What replaces it has its own."""
    moved = CITED.replace("drug therapy", "surgery")
    _put(cited.path, article(11, "One", xml=moved, mesh=("Asthma",)))
    assert (found(cited, "pubmed", "drug therapy[sh]"), found(cited, "pubmed", "asthma/surgery[mh]")) == ([], ["11"])
    _put(cited.path, Removal("pubmed", "11"))
    assert found(cited, "pubmed", "surgery[sh]") == [] and found(cited, "pubmed", "geneve[ad]") == []


@pytest.mark.parametrize("tag", ["vi", "pg", "ir"])
def test_a_field_that_is_not_indexed_is_named(store: GatewayStore, tag: str) -> None:
    """As one that the database lacks."""
    reply = answer(store, "esearch", {"db": "pubmed", "term": f"telomere[{tag}]", "retmode": "json"})
    assert json.loads(reply.body)["esearchresult"]["errorlist"]["fieldsnotfound"] == [tag]
