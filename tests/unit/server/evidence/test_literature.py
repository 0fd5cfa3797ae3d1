"""Records of PubMed become articles of a review, by the calls and under the modes that egress allows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from clinfo_bench import ARTICLES, ClinfoBench, Handler, article, pubmed
from ncbi_files import pubmed_set
from ncbi_server import Answer, Seen

from retrieval.errors import NCBI_MALFORMED, NCBI_UNAVAILABLE, NcbiError
from retrieval.types import RawReply, Route
from server.evidence.literature import EntrezSource, Posted, note_of, read_articles, read_posted, read_spellings
from server.methods.base import CallReplied, OptionInvalid
from server.methods.clinfo.literature import Hear
from server.methods.clinfo.options import parse_options


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    return lambda *given, **more: ClinfoBench(tmp_path, *given, **more)


async def _source(made: ClinfoBench, hear: Hear = lambda call: None) -> EntrezSource:
    (source,) = made.method._library.literature.open(made.made(), parse_options({}), hear)
    assert isinstance(source, EntrezSource)
    return source


def test_a_record_is_its_own_reference() -> None:
    """Never that of an article in its reference list, which the published program takes."""
    cited = "<ReferenceList><Reference><Citation>Su JR. Another paper. 2021.</Citation></Reference></ReferenceList>"
    record = article("101", "Myocarditis after vaccination.", ("", "Text of it."), data=cited)
    (found,) = read_articles(pubmed_set(record), "here", ["101"]).articles
    assert found.item["title"] == "Myocarditis after vaccination" and "Su JR" not in str(found.item)
    assert (found.key, found.url) == ("PMID:101", "https://pubmed.ncbi.nlm.nih.gov/101/")


def test_notices_are_flags() -> None:
    kinds = ("ErratumIn", "ExpressionOfConcernIn", "RetractionIn")
    notice = "".join(
        f'<CommentsCorrections RefType="{k}"><RefSource>x</RefSource><PMID>9</PMID></CommentsCorrections>'
        for k in kinds
    )
    record = article(
        "1", "T.", types=("Preprint",), notices=f"<CommentsCorrectionsList>{notice}</CommentsCorrectionsList>"
    )
    (found,) = read_articles(pubmed_set(record), "here", ["1"]).articles
    assert found.flags == ("retracted", "expression of concern", "erratum", "preprint")
    own = '<CommentsCorrections RefType="RetractionOf"><RefSource>x</RefSource><PMID>9</PMID></CommentsCorrections>'
    record = article("2", "T.", notices=f"<CommentsCorrectionsList>{own}</CommentsCorrectionsList>")
    assert read_articles(pubmed_set(record), "here", ["2"]).articles[0].flags == ()


def test_book_chapters_are_read() -> None:
    chapter = (
        "<PubmedBookArticle><BookDocument><PMID>20301295</PMID><Book><BookTitle>GeneReviews</BookTitle><PubDate>"
        "<Year>1993</Year></PubDate></Book><ArticleTitle>Cystic fibrosis</ArticleTitle><Abstract><AbstractText "
        'Label="DIAGNOSIS">By two variants.</AbstractText></Abstract></BookDocument></PubmedBookArticle>'
    )
    (found,) = read_articles(f"<PubmedArticleSet>{chapter}</PubmedArticleSet>", "here", ["20301295"]).articles
    assert (
        found.types == ("book chapter",) and found.sections[0].label == "DIAGNOSIS" and found.item["type"] == "chapter"
    )


def test_what_cannot_be_read_is_reported_and_costs_no_other() -> None:
    body = pubmed_set(ARTICLES["101"], "<PubmedArticle><MedlineCitation/></PubmedArticle>")
    found = read_articles(body, "here", ["101"])
    assert [one.pmid for one in found.articles] == ["101"] and len(found.unread) == 1
    cut = read_articles(body[: body.index("</PubmedArticle>") + 30], "here", ["101"])
    assert [one.pmid for one in cut.articles] == ["101"] and cut.unread
    with pytest.raises(NcbiError, check=NCBI_MALFORMED.is_of):
        read_articles("<html>", "here", ["101"])
    assert read_articles(pubmed_set(), "here", ["101"]).articles == ()


async def test_many_records_take_one_call_for_each_two_hundred(bench: Any) -> None:
    many = {str(n): article(str(n), f"Title {n}.") for n in range(1, 451)}
    async with bench(pubmed(many)) as made:
        found = await (await _source(made)).fetch(list(many), 60)
        calls = [seen for seen in made.server.seen if seen.path.endswith("efetch.fcgi")]
    assert len(found.articles) == 450 and sorted(len(seen.params["id"].split(",")) for seen in calls) == [50, 200, 200]


def _with_history(articles: Mapping[str, str], *stored: str) -> Handler:
    """PubMed with a history server that keeps ids in the order of their numbers; ``stored`` are those that it lost."""
    handler, environments = pubmed(articles), {}

    def handle(seen: Seen) -> Answer:
        params = seen.params
        if seen.path.endswith("epost.fcgi"):
            environments["MCID_67f0a2b1c4"] = sorted(set(params["id"].split(",")) - set(stored), key=int, reverse=True)
            inner = "<QueryKey>1</QueryKey><WebEnv>MCID_67f0a2b1c4</WebEnv>"
            return Answer(body=f"<ePostResult>{inner}</ePostResult>".encode())
        if "WebEnv" in params:
            first, most = int(params["retstart"]), int(params["retmax"])
            ids = environments[params["WebEnv"]][first : first + most]
            return Answer(body=pubmed_set(*(articles[pmid] for pmid in ids)).encode())
        return handler(seen)

    return handle


def _asked_for(made: ClinfoBench) -> list[str]:
    def told(seen: Seen) -> str:
        how = "posted" if seen.path.endswith("epost.fcgi") else "by id"
        return "page" if "WebEnv" in seen.params else f"{how} {len(seen.params['id'].split(','))}"

    return [told(seen) for seen in made.server.seen]


async def test_of_pubmed_more_than_one_batch_is_posted_and_fetched_by_page(bench: Any) -> None:
    many = {str(n): article(str(n), f"Title {n}.") for n in range(1, 451)}
    heard: list[CallReplied] = []
    async with bench(_with_history(many), mode="ncbi") as made:
        found = await (await _source(made, heard.append)).fetch(list(many), 60)
        assert _asked_for(made) == ["posted 450", "page", "page", "page"]
        few = await (await _source(made)).fetch(list(many)[:200], 60)
        assert _asked_for(made)[4:] == ["by id 200"]
    assert [one.pmid for one in found.articles] == list(many) and found.unread == () and len(few.articles) == 200
    assert heard[0].summary == "450 ids" and {call.status for call in heard} == {"ok"}


async def test_what_the_history_server_lost_is_fetched_by_id(bench: Any) -> None:
    many = {str(n): article(str(n), f"Title {n}.") for n in range(1, 451)}
    async with bench(_with_history(many, "7", "8"), mode="ncbi") as made:
        found = await (await _source(made)).fetch(list(many), 60)
        assert _asked_for(made) == ["posted 450", "page", "page", "page", "by id 2"]
    assert [one.pmid for one in found.articles] == list(many)


@pytest.mark.parametrize("ends", ["epost.fcgi", "efetch.fcgi"])
async def test_without_a_history_server_records_are_fetched_by_id(bench: Any, ends: str) -> None:
    """Whether it takes no ids, or gives none back."""
    many = {str(n): article(str(n), f"Title {n}.") for n in range(1, 301)}
    handler = _with_history(many)
    lost = b"<eFetchResult><ERROR>Unable to obtain query #1</ERROR></eFetchResult>"

    def handle(seen: Seen) -> Answer:
        fails = seen.path.endswith(ends) and ("WebEnv" in seen.params or ends == "epost.fcgi")
        return Answer(body=lost) if fails else handler(seen)

    async with bench(handle, mode="ncbi") as made:
        found = await (await _source(made)).fetch(list(many), 60)
        assert _asked_for(made)[-2:] == ["by id 200", "by id 100"]
    assert [one.pmid for one in found.articles] == list(many) and found.unread == ()


async def test_a_late_history_server_ends_with_the_time(bench: Any) -> None:
    many = {str(n): article(str(n), f"Title {n}.") for n in range(1, 301)}
    async with bench(lambda seen: Answer(hang=True), mode="ncbi") as made:
        found = await (await _source(made)).fetch(list(many), 1)
        assert _asked_for(made) == ["posted 300"]
    assert found.is_late and found.articles == ()


def test_a_reply_without_a_place_in_the_history_is_malformed() -> None:
    whole = "<ePostResult><QueryKey>1</QueryKey><WebEnv>MCID_1</WebEnv></ePostResult>"
    assert read_posted(whole, ["5"]) == Posted("MCID_1", "1", ("5",))
    for body in ("<ePostResult><ERROR>Empty ID list</ERROR></ePostResult>", "<html>", whole.replace("ePost", "eFetch")):
        with pytest.raises(NcbiError, check=NCBI_MALFORMED.is_of):
            read_posted(body, ["5"])


def _espell(query: str, corrected: str) -> str:
    return f"<eSpellResult><Query>{query}</Query><CorrectedQuery>{corrected}</CorrectedQuery><ERROR/></eSpellResult>"


def test_spellings_are_told_word_by_word() -> None:
    words = ["asthmaa", "Children"]
    assert read_spellings(_espell("asthmaa Children", "asthma children"), words) == {"asthmaa": "asthma"}
    assert read_spellings(_espell("asthmaa Children", ""), words) == {}
    assert read_spellings(_espell("asthmaa Children", "asthma"), words) == {}
    assert read_spellings(_espell("asthmaa Children", "asth]ma children"), words) == {}
    for body in ("<html>", "<eSearchResult/>", '<!DOCTYPE x [<!ENTITY a "b">]><eSpellResult/>'):
        with pytest.raises(NcbiError, check=NCBI_MALFORMED.is_of):
            read_spellings(body, words)


async def test_a_source_is_asked_for_spellings_by_espell(bench: Any) -> None:
    """But of no English word: "falls" is no slip of "fails"."""
    async with bench(lambda seen: Answer(body=_espell("x", "asthma").encode())) as made:
        source = await _source(made)
        assert await source.spelled(["asthmaa", "children", "Falls"]) == {"asthmaa": "asthma"}
        (seen,) = made.server.seen
        assert await source.spelled(["falls", "preventing"]) == {} and len(made.server.seen) == 1
    assert seen.path.endswith("/espell.fcgi") and seen.params["term"] == "asthmaa"


async def test_a_batch_that_fails_costs_only_its_articles(bench: Any) -> None:
    many = {str(n): article(str(n), f"Title {n}.") for n in range(1, 301)}
    handler = pubmed(many)

    def handle(seen: Seen) -> Answer:
        return Answer(status=503) if seen.params.get("id", "").startswith("1,") else handler(seen)

    async with bench(handle) as made:
        found = await (await _source(made)).fetch(list(many), 60)
        with pytest.raises(NcbiError, check=NCBI_UNAVAILABLE.is_of):
            await (await _source(made)).fetch(["1", "2"], 60)
    assert len(found.articles) == 100 and found.unread == ("NCBI is in trouble (HTTP 503)",)


async def test_a_batch_that_is_late_costs_only_its_articles(bench: Any) -> None:
    many = {str(n): article(str(n), f"Title {n}.") for n in range(1, 301)}
    handler = pubmed(many)

    def handle(seen: Seen) -> Answer:
        return Answer(hang=True) if seen.params.get("id", "").startswith("1,") else handler(seen)

    async with bench(handle) as made:
        found = await (await _source(made)).fetch(list(many), 1)
    assert len(found.articles) == 100 and found.is_late and found.unread == ()


async def test_sources_follow_the_egress_mode(bench: Any) -> None:
    """With mode off PubMed is refused with the remedy, and the gateway is the default."""
    async with bench() as made:
        literature, ask = made.method._library.literature, made.made()
        assert [source.name for source in literature.open(ask, parse_options({}), lambda call: None)] == ["gateway"]
        assert literature.namespaces(ask, parse_options({})) == ()
        with pytest.raises(OptionInvalid, match="egress is off for this request") as refused:
            literature.check(ask, parse_options({"sources": "pubmed"}))
    assert refused.value.param == "arrowhead.sources"


def test_queries_that_egress_keeps_are_told() -> None:
    """An empty gateway alone was searched, and the report does not pretend that PubMed was."""
    route = Route(mode="local-first", went_to="gateway", withheld=("free_text",), note="term: form")
    kept = RawReply(200, "application/json", "{}", 2, route=route)
    assert note_of(kept) == "PubMed was not asked, as egress keeps free_text on this machine"
    assert note_of(RawReply(200, "application/json", "{}", 2)) == ""


async def test_each_call_is_heard_with_its_address_and_what_came_of_it(bench: Any) -> None:
    """Also one that fails and one that is given up; the record says where it went."""
    handler = pubmed(ARTICLES)

    def handle(seen: Seen) -> Answer:
        if seen.path.endswith("espell.fcgi"):
            return Answer(hang=True)
        return Answer(status=503) if seen.params.get("retmax") == "1" else handler(seen)

    heard: list[CallReplied] = []
    async with bench(handle) as made:
        source = await _source(made, heard.append)
        await source.search("dexamethasone", 20)
        await source.fetch(["101", "102"], 60)
        with pytest.raises(NcbiError, check=NCBI_UNAVAILABLE.is_of):
            await source.count("dexamethasone")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await source.spelled(["dexamethasonne"])
    told = [(call.record["endpoint"], call.status, call.summary.partition(":")[0]) for call in heard]
    assert told[:2] == [("esearch", "ok", "4 ids"), ("efetch", "ok", "2 records")]
    assert told[2:] == [("esearch", "error", "error"), ("espell", "error", "error")]
    search, fetched = heard[:2]
    assert (
        search.url.startswith("https://eutils.ncbi")
        and "term=dexamethasone" in search.url
        and "api_key" not in search.url
    )
    assert fetched.record["ids"] == ["101", "102"] and fetched.record["egress"]["left"] is False
    assert heard[3].summary == "error: given up, as it took too long"
