"""Rankings are fused in a stable order, duplicates are one candidate, and failures are recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from retrieval.corpus.search.ranking import RankedPassage
from retrieval.errors import NCBI_TIMEOUT, IndexDamaged, NcbiError
from retrieval.passages import Document, Hit, Passage
from retrieval.references.csl import reference_line, ris
from server.methods.clinfo.literature import Article, Fetched, Hits, Section
from server.methods.clinfo.options import ClinfoOptions
from server.methods.clinfo.queries import MAX_HITS, Clause, Query
from server.methods.clinfo.search import (
    Candidate,
    Searched,
    SearchRun,
    doi_in,
    fetch,
    merge,
    search_nearest,
    search_passages,
    search_source,
)
from server.methods.shared.passages import Gathered, PassageQuery, SentenceScores


@dataclass
class FixedPlace:
    """Find ``hits`` for a term; any other finds nothing."""

    hits: dict[str, Hits] = field(default_factory=dict)
    articles: Sequence[Article] = ()
    failure: bool = False
    name: str = "here"
    asked: list[str] = field(default_factory=list)
    spellings: dict[str, str] = field(default_factory=dict)
    near: Hits | None = None

    async def search(self, term: str, most: int) -> Hits:
        self.asked.append(term)
        if self.failure:
            raise NcbiError("NCBI gave no answer within 1 s", NCBI_TIMEOUT)
        return self.hits.get(term, Hits(0, ()))

    async def nearest(self, question: str, options: ClinfoOptions, most: int) -> Hits | None:
        self.asked.append(question)
        if self.failure:
            raise IndexDamaged("manifest.json is damaged")
        return None if self.near is None else replace(self.near, pmids=self.near.pmids[:most])

    async def count(self, term: str) -> int:
        return (await self.search(term, 1)).count

    async def spelled(self, words: Sequence[str]) -> dict[str, str]:
        if self.failure or "unspelled" in words:
            raise NcbiError("NCBI gave no answer within 1 s", NCBI_TIMEOUT)
        return {word: self.spellings[word] for word in words if word in self.spellings}

    async def fetch(self, pmids: Sequence[str], seconds: float) -> Fetched:
        if self.failure:
            raise NcbiError("NCBI gave no answer within 1 s", NCBI_TIMEOUT)
        return Fetched(tuple(one for one in self.articles if one.pmid in pmids), is_late=seconds < 1)


@dataclass
class FixedPassages:
    """Find one passage of each document, for every query."""

    documents: Sequence[Document]
    names: tuple[str, ...] = ("own",)

    def check(self, passage_query: PassageQuery) -> None:
        return

    async def find(self, queries: Sequence[str], passage_query: PassageQuery) -> Gathered:
        ranked = tuple(map(_ranked, self.documents))
        return Gathered(namespaces=("own",), retriever="bm25", lists=(ranked,) * len(queries))

    async def compare(self, question: str, sentences: Sequence[str], names: Sequence[str]) -> SentenceScores:
        return SentenceScores()


def _ranked(document: Document) -> RankedPassage:
    passage = Passage(passage_id=1, document_id=document.document_id, title=document.title, text="X.")
    return RankedPassage(passage=passage, document=document, hit=Hit(1, 1.0), namespace="own")


def _run(source: str, *pmids: str, weight: float = 1.0) -> SearchRun:
    keys = tuple(f"PMID:{pmid}" for pmid in pmids)
    return SearchRun(source=source, query="q", writer="rules", hits=len(keys), keys=keys, weight=weight)


def _article(pmid: str, doi: str = "") -> Article:
    return Article(key=f"PMID:{pmid}", title=f"T{pmid}", pmid=pmid, sections=(Section("", "x"),), doi=doi)


def test_rankings_are_fused_by_reciprocal_ranks() -> None:
    """An article of two rankings is one candidate and beats one of a single ranking; ties keep the search's order."""
    searched = Searched((_run("a", "1", "2", "3"), _run("b", "3", "9")), {"PMID:1": 0, "PMID:3": 0})
    merged = merge(searched, frozenset({"9"}))
    assert [one.key for one in merged.candidates] == ["PMID:3", "PMID:1", "PMID:2"]
    assert (merged.num_found, merged.num_duplicates) == (5, 1)
    assert merged.candidates[0].found_by == {0: 3, 1: 1}
    assert merge(searched, frozenset({"9"})) == merged


def test_a_ranking_by_all_words_weighs_more() -> None:
    merged = merge(Searched((_run("a", "1"), _run("b", "2", weight=4.0))), frozenset())
    assert [one.key for one in merged.candidates] == ["PMID:2", "PMID:1"]


async def test_articles_near_in_meaning_are_one_more_ranking() -> None:
    """It counts as much as the search for any of the words, takes as many as are screened, and tells a note."""
    source = FixedPlace(near=Hits(150, tuple(map(str, range(1, 151))), "3 of 9 articles have no vector"))
    found = await search_nearest(2, source, "What is it?", ClinfoOptions(max_articles=120))
    (run,) = found.runs
    assert (run.source, run.query, run.weight, len(run.keys)) == ("here (vectors)", "What is it?", 4.0, 120)
    assert run.note == "3 of 9 articles have no vector" and found.homes["PMID:1"] == 2
    assert (await search_nearest(0, FixedPlace(), "What is it?", ClinfoOptions())) == Searched()


async def test_vectors_that_cannot_be_read_are_a_search_that_failed() -> None:
    (run,) = (await search_nearest(0, FixedPlace(failure=True), "What is it?", ClinfoOptions())).runs
    assert run.error == "IndexDamaged: manifest.json is damaged" and run.keys == ()


async def test_a_query_that_finds_nothing_is_repaired() -> None:
    """First without fields, then without the clause that finds least; the record says what was asked in the end."""
    query = Query((Clause(("odd name",), linked=True), Clause(("asthma",))), "rules")
    source = FixedPlace({"asthma": Hits(7, ("1", "2"))})
    found = await search_source(0, source, query, 100)
    (run,) = found.runs
    assert (run.query, run.repaired, run.hits, run.keys) == ("asthma", True, 7, ("PMID:1", "PMID:2"))
    assert source.asked[0].startswith('("odd name"[mh]') and source.asked[1] == "(odd name) AND asthma"


async def test_a_query_is_spelled_as_the_index_does_before_it_is_broadened() -> None:
    """The record has the query as it was asked, and says which word was searched for as which."""
    query = Query((Clause(("lasmiditn",)), Clause(("migraine",))), "rules")
    source = FixedPlace({"lasmiditan AND migraine": Hits(2, ("1",))}, spellings={"lasmiditn": "lasmiditan"})
    (run,) = (await search_source(0, source, query, 100)).runs
    assert (run.query, run.repaired, run.keys) == ("lasmiditan AND migraine", True, ("PMID:1",))
    assert run.note == '"lasmiditn" searched for as "lasmiditan"'
    assert source.asked == ["lasmiditn AND migraine", "lasmiditan AND migraine"]


async def test_words_that_a_search_ignores_are_spelled_as_well() -> None:
    """A search that finds by its other words alone says so; a correction that finds less than these is not taken."""
    query = Query((Clause(("lasmiditn", "x")), Clause(("migraine",))), "rules", any_of=1)
    ignoring = Hits(9, ("9",), missing=("lasmiditn",))
    hits = {"lasmiditn OR migrain*": ignoring, "lasmiditan OR migrain*": Hits(2, ("1",))}
    spellings = {"lasmiditn": "lasmiditan"}
    (run,) = (await search_source(0, FixedPlace(hits, spellings=spellings), query, 100)).runs
    assert (run.keys, run.repaired) == (("PMID:1",), True)
    (run,) = (
        await search_source(0, FixedPlace({"lasmiditn OR migrain*": ignoring}, spellings=spellings), query, 100)
    ).runs
    assert (run.keys, run.repaired, run.note) == (("PMID:9",), False, "")


async def test_without_a_spelling_the_other_repairs_go_on() -> None:
    """Also where a corrected query finds nothing, or the place does not answer; words of a request stay as they are."""
    query = Query((Clause(("asthma",)), Clause(("unspelled",))), "rules")
    (run,) = (await search_source(0, FixedPlace({"asthma": Hits(7, ("1",))}), query, 100)).runs
    assert (run.query, run.error, run.note) == ("asthma", "", "")
    query = Query((Clause(("asthma",)), Clause(("zebrafishh",))), "rules")
    source = FixedPlace({"asthma": Hits(7, ("1",))}, spellings={"zebrafishh": "zebrafish"})
    (run,) = (await search_source(0, source, query, 100)).runs
    assert run.query == "asthma" and source.asked[1] == "asthma AND zebrafish"
    source = FixedPlace(spellings={"asthmaa": "asthma"})
    (run,) = (await search_source(0, source, Query((), "request", text="asthmaa"), 100)).runs
    assert source.asked == ["asthmaa"] and not run.repaired


async def test_a_query_that_finds_too_much_needs_more_words() -> None:
    query = Query((Clause(("red blood cell",)),), "rules", any_of=1)
    many = Hits(MAX_HITS + 1, ("1",))
    pairs = "(red AND blood) OR (red AND cell) OR (blood AND cell)"
    source = FixedPlace({"red OR blood OR cell": many, pairs: Hits(5, ("2",))})
    (run,) = (await search_source(0, source, query, 100)).runs
    assert (run.query, run.keys) == (pairs, ("PMID:2",))
    (run,) = (await search_source(0, FixedPlace({"asthma": many}), Query((Clause(("asthma",)),), "rules"), 100)).runs
    assert run.keys == () and "too broad" in run.note


async def test_a_failed_search_and_a_bad_query_are_records() -> None:
    (run,) = (await search_source(0, FixedPlace(failure=True), Query((Clause(("a b",)),), "rules"), 100)).runs
    assert run.error == "NcbiTimeout: NCBI gave no answer within 1 s" and run.hits == -1
    source = FixedPlace()
    (run,) = (await search_source(0, source, Query((), "request", text="((x"), 100)).runs
    assert "not closed" in run.error and source.asked == []


async def test_records_of_one_doi_are_one_article() -> None:
    """A preprint and its article under one DOI; what is nowhere is missing, a dead place is an error."""
    sources = [
        FixedPlace(articles=[_article("1", doi="10.1/x"), _article("2", doi="10.1/x")]),
        FixedPlace(failure=True),
    ]
    wanted = [Candidate(f"PMID:{n}", 1.0, {0: n}, 0 if n < 4 else 1) for n in (1, 2, 3, 4)]
    got = await fetch(sources, wanted, 1)
    assert [one.key for one in got.candidates] == ["PMID:1"] and got.num_same_doi == 1
    assert got.missing == ("PMID:3", "PMID:4") and got.errors == ("NcbiTimeout: NCBI gave no answer within 1 s",)


async def test_an_article_of_a_namespace_is_cited_with_its_authors() -> None:
    """In references and exports: what its source told of it, also of one that was fetched from PubMed."""
    known: dict[str, Any] = {"authors": ("Horby P", "Lim WS"), "journal": "N Engl J Med", "date": 20210225}
    documents = [
        Document(document_id="PMID:32678530", title="Dexamethasone in Covid-19.", **known),
        Document(document_id="sha256:1", title="Notes of the ward", url="https://example.org/notes"),
    ]
    found = await search_passages(FixedPassages(documents), ["own"], ["q"])
    article, notes = (found.local[document.document_id] for document in documents)
    shown = reference_line(article.item)
    assert shown.startswith("Horby P, Lim WS. Dexamethasone in Covid-19. N Engl J Med") and "2021" in shown
    record = ris([article.item])
    assert "AU  - Horby, P" in record and "AN  - 32678530" in record and "T2  - N Engl J Med" in record
    assert "author" not in notes.item and notes.item["URL"] == "https://example.org/notes"


async def test_what_was_fetched_in_time_is_kept() -> None:
    """What a later call would have fetched is missing, and the stage is said to have taken too long."""
    sources = [FixedPlace(articles=[_article("1")]), FixedPlace(articles=[_article("3")])]
    wanted = [Candidate(f"PMID:{n}", 1.0, {0: n}, source) for n, source in ((1, 0), (2, 0), (3, 1))]
    got = await fetch(sources, wanted, 0.5)
    assert [one.key for one in got.candidates] == ["PMID:1", "PMID:3"]
    assert (got.missing, got.errors) == (("PMID:2",), ("fetch took too long",))


@pytest.mark.parametrize(
    ("text", "doi"),
    [
        ("https://doi.org/10.1056/NEJMoa2021436", "10.1056/nejmoa2021436"),
        ("https://www.nejm.org/doi/full/10.1056/NEJMoa2021436", "10.1056/nejmoa2021436"),
        ("https://onlinelibrary.wiley.com/doi/10.1002/14651858.CD013600.pub5/full", "10.1002/14651858.cd013600.pub5"),
        (
            "https://journals.plos.org/plosone/article?id=10.1371/journal.pone.0000308&type=x",
            "10.1371/journal.pone.0000308",
        ),
        ("https://example.org/10.1101%2F2020.06.22.20137273.pdf", "10.1101/2020.06.22.20137273"),
        ("doi:10.1000/ABC(1)2", "10.1000/abc(1)2"),
        ("https://example.org/v110.1234/x", ""),
        ("sha256:10.12", ""),
        ("", ""),
    ],
)
def test_a_doi_is_read_from_an_address_or_id(text: str, doi: str) -> None:
    """Without what publishers write behind it."""
    assert doi_in(text) == doi


async def test_a_document_with_the_doi_of_an_article_is_that_article() -> None:
    """At the place of the better rank, with the record of PubMed, and found by the searches of both."""
    address = "https://doi.org/10.1056/NEJMoa2021436"
    documents = [Document(document_id="sha256:1", title="Dexamethasone", url=address, retracted_by=("PMID:9",))]
    local = (await search_passages(FixedPassages(documents), ["own"], ["q"])).local
    assert local["sha256:1"].item["DOI"] == "10.1056/nejmoa2021436"
    own = Candidate("sha256:1", 2.0, {1: 1}, article=local["sha256:1"])
    record, other = Candidate("PMID:1", 1.0, {0: 1, 1: 9}, 0), Candidate("PMID:2", 1.5, {0: 2}, 0)
    source = FixedPlace(articles=[_article("1", doi="10.1056/nejmoa2021436"), _article("2")])
    got = await fetch([source], [own, other, record], 1)
    assert [one.key for one in got.candidates] == ["PMID:1", "PMID:2"] and got.num_same_doi == 1
    first = got.candidates[0]
    assert (first.score, first.found_by, first.source) == (2.0, {0: 1, 1: 1}, 0)
    assert first.article is not None and first.article.flags == ("retracted",)  # as the document says
    (alone,) = (await fetch([source], [own], 1)).candidates
    assert alone.key == "sha256:1"
