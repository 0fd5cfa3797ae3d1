"""Filling namespaces from PubMed: through the client from the gateway, and from a double that has more articles."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import date, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from corpus_doubles import WordEncoder, backends
from corpus_files import jats
from gateway_records import make_store
from ncbi_files import pubmed_record, pubmed_set

from retrieval.corpus.ingest.add import ChangeHooks
from retrieval.corpus.ingest.pubmed_sync import (
    MAX_LISTED,
    PubmedQuery,
    add_query,
    list_pmids,
    queries_of,
    refresh,
    update,
)
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.namespaces.verify import verify
from retrieval.errors import NCBI_MALFORMED, NCBI_TOO_LARGE, NCBI_UNAVAILABLE, NamespaceInvalid, NcbiError
from retrieval.gateway.app import create_gateway_app
from retrieval.ncbi.client.client import ClientConfig, NcbiClient
from retrieval.ncbi.client.transport import HttpSender, SendLimits
from retrieval.types import NcbiCall, RawReply


class Pubmed:
    """So many articles a day from 2020 on; like PubMed it lists 9,999 of a search, the newest first.

    ``revised``: when records were last changed. ``closed``: PMIDs it counts and never sends. ``retracted``: those with
    a notice. ``largest``: records of the largest reply. ``fails_after`` so many calls.
    """

    def __init__(self, per_day: list[int], *, largest: int = 10_000, fails_after: int = 10**6) -> None:
        first = date(2020, 1, 1)
        days = [first + timedelta(days=at) for at, many in enumerate(per_day) for _ in range(many)]
        self.days = dict(enumerate(days, 1))
        self.revised: dict[int, date] = {}
        self.closed: set[int] = set()
        self.retracted: set[int] = set()
        self.calls: list[NcbiCall] = []
        self.cut = ""  # the database whose replies end too early
        self.largest = largest
        self.fails_after = fails_after

    async def __call__(self, call: NcbiCall) -> RawReply:
        await asyncio.sleep(0)
        self.calls.append(call)
        if len(self.calls) > self.fails_after:
            raise NcbiError("down", NCBI_UNAVAILABLE)
        if call.endpoint == "esearch":
            return _reply(self._search(call))
        ids = call.params["id"].split(",")
        if call.endpoint == "elink":
            links = [number for number in ids if int(number) % 2 == 0]
            found = [{"dbto": "pmc", "linkname": "pubmed_pmc", "links": links}] if links else []
            return _reply(json.dumps({"linksets": [{"dbfrom": "pubmed", "ids": ids, "linksetdbs": found}]}))
        if len(ids) > self.largest:
            raise NcbiError("too large", NCBI_TOO_LARGE)
        if call.db == "pmc":
            articles = (jats(int(n), body="" if int(n) % 4 else "<p>Full text.</p>") for n in ids)
            return _reply(f"<pmc-articleset>{''.join(articles)}{'' if self.cut == 'pmc' else '</pmc-articleset>'}")
        return _reply(pubmed_set(*(self._record(int(number)) for number in ids if int(number) not in self.closed)))

    def _record(self, number: int) -> str:
        record = pubmed_record(str(number), title=f"Title {number}.")
        if number not in self.retracted:
            return record
        notice = "<CommentsCorrections RefType='RetractionIn'><PMID Version='1'>77</PMID></CommentsCorrections>"
        lists = f"<CommentsCorrectionsList>{notice}</CommentsCorrectionsList></MedlineCitation>"
        return record.replace("</MedlineCitation>", lists)

    def _search(self, call: NcbiCall) -> str:
        low, high = (_day(call.params.get(name, "")) for name in ("mindate", "maxdate"))
        dates = self.days if call.params.get("datetype", "pdat") == "pdat" else self.revised
        found = [n for n, day in dates.items() if (not low or day >= low) and (not high or day <= high)]
        ids = [str(number) for number in reversed(found)][: min(int(call.params["retmax"]), 9999)]
        return json.dumps({"esearchresult": {"count": str(len(found)), "idlist": ids}})


def _day(text: str) -> date | None:
    return date(*map(int, text.split("/"))) if text else None


def _reply(body: str) -> RawReply:
    return RawReply(200, "text/plain", body, len(body))


@pytest.fixture
def encoder() -> WordEncoder:
    return WordEncoder()


@pytest.fixture
def namespaces(tmp_path: Path, encoder: WordEncoder) -> Namespaces:
    found = Namespaces(tmp_path / "namespaces", backends(encoder))
    found.create("ns", NamespaceSettings(encoder="words", words="none"))
    return found


@pytest_asyncio.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[NcbiClient]:
    store = make_store(tmp_path)
    sender = HttpSender(SendLimits(), create_gateway_app(store))
    client = NcbiClient(ClientConfig(rate_per_s=0), sender=sender)
    yield client
    await client.aclose()
    store.close()


async def test_a_reply_that_is_cut_does_not_stop_the_others(namespaces: Namespaces) -> None:
    """What came before the cut is added, the fault is reported beside it, and the records come all the same."""
    pubmed = Pubmed([8])
    pubmed.cut = "pmc"
    done = await add_query(pubmed, namespaces, "ns", PubmedQuery(term="x", full_text=True))
    (fault,) = [one.reason for one in done.added.first_passed if "cut" in one.reason]
    assert "the file ends before </pmc-articleset>" in fault
    assert (done.full_texts, done.added.added, done.missing) == (2, 10, ())


async def test_a_query_is_filled_from_the_gateway_with_full_texts(gateway: NcbiClient, namespaces: Namespaces) -> None:
    """esearch, elink to PMC, efetch of both; the query is remembered."""
    query = PubmedQuery(term="zinc", full_text=True)
    done = await add_query(gateway.fetch, namespaces, "ns", query)
    assert (done.full_texts, done.missing, done.known) == (1, (), 0)
    assert done.listed.count == len(done.listed.pmids) > 0
    with namespaces.using("ns") as namespace:
        ids = list(namespace.store.document_ids())
        assert {"PMC:9000001", "PMID:10000001"} <= set(ids)
        found = namespace.store.document("PMID:10000001")
        assert found is not None
        assert found[0].provenance == "pubmed: zinc"
    assert verify(namespaces, "ns").whole
    assert [saved.query for saved in queries_of(namespaces, "ns")] == [query]


async def test_dates_and_types_are_as_the_query_says(gateway: NcbiClient, namespaces: Namespaces) -> None:
    """No review is left out; days of publication are bounds on both sides."""
    term = "10000001[uid] OR 10000002[uid] OR 10000004[uid] OR 10000005[uid]"
    done = await add_query(gateway.fetch, namespaces, "ns", PubmedQuery(term=term, date_from="1999/01/01"))
    with namespaces.using("ns") as namespace:
        kinds = {i: namespace.store.document(i) for i in namespace.store.document_ids()}
    assert "PMID:10000002" not in kinds
    chapter = kinds["PMID:10000004"]
    assert chapter is not None
    assert "review" in chapter[0].types
    assert done.listed.not_found == ()


async def test_an_update_fetches_only_what_is_new(namespaces: Namespaces, encoder: WordEncoder) -> None:
    """A known article costs neither a call nor an encoding; all of them anew only on demand."""
    pubmed = Pubmed([150, 150])
    first = await add_query(pubmed, namespaces, "ns", PubmedQuery(term="asthma"))
    assert (first.added.added, first.known, encoder.encoded) == (300, 0, 300)
    assert [len(call.params["id"].split(",")) for call in pubmed.calls if call.endpoint == "efetch"] == [200, 100]
    pubmed.days[301] = date(2020, 1, 3)
    pubmed.calls.clear()
    (second,) = await update(pubmed, namespaces, "ns")
    assert (second.known, second.added.added, encoder.encoded) == (300, 1, 301)
    assert [call.params["id"] for call in pubmed.calls if call.endpoint == "efetch"] == ["301"]
    again = await refresh(pubmed, namespaces, "ns", PubmedQuery(term="asthma"))
    assert (again.added.unchanged, encoder.encoded) == (301, 301)
    (saved,) = queries_of(namespaces, "ns")
    assert saved.count == 301


async def test_an_update_hears_of_retractions(namespaces: Namespaces) -> None:
    """Of known articles those are fetched again whose records changed since the last run."""
    pubmed, query = Pubmed([30]), PubmedQuery(term="asthma")
    await add_query(pubmed, namespaces, "ns", query)
    pubmed.retracted, pubmed.revised = {5}, {5: date(3000, 1, 1), 6: date(2001, 1, 1), 999: date(3000, 1, 1)}
    pubmed.calls.clear()
    (done,) = await update(pubmed, namespaces, "ns")
    assert (done.known, done.revised, done.added.changed) == (30, 1, 1)
    assert [call.params["id"] for call in pubmed.calls if call.endpoint == "efetch"] == ["5"]
    with namespaces.using("ns") as namespace:
        found = namespace.store.document("PMID:5")
    assert found is not None
    assert found[0].retracted_by == ("77",)
    assert "retracted publication" in found[0].types


async def test_more_than_pubmed_lists_is_found_by_halving_the_time() -> None:
    """Every PMID once, the newest first, whatever lies on which day."""
    pubmed = Pubmed([9000, 0, 4000, 6000, 1, 5000])
    found = await list_pmids(pubmed, PubmedQuery(term="asthma"))
    assert found.count == 24_001
    assert sorted(map(int, found.pmids)) == list(range(1, 24_002))
    assert found.pmids[0] == "24001"
    assert found.unlisted == ()
    assert len(pubmed.calls) < 60


async def test_a_day_with_too_many_is_told() -> None:
    """Nothing finer than a day can be asked for."""
    found = await list_pmids(Pubmed([10, 12_000]), PubmedQuery(term="asthma", date_from="2020/01/01"))
    assert found.unlisted == ("2020/01/02",)
    assert len(found.pmids) == MAX_LISTED + 10


async def test_a_limit_takes_the_newest() -> None:
    """One search is enough for it."""
    pubmed = Pubmed([9000, 9000])
    found = await list_pmids(pubmed, PubmedQuery(term="asthma", limit=3))
    assert (found.count, found.pmids) == (18_000, ("18000", "17999", "17998"))
    assert len(pubmed.calls) == 1
    many = await list_pmids(Pubmed([9000, 9000, 9000]), PubmedQuery(term="asthma", limit=10_500))
    assert len(many.pmids) == 10_500


async def test_a_search_that_lists_too_few_is_an_error() -> None:
    """Otherwise a namespace would silently lack what was not listed."""

    class Short(Pubmed):
        def _search(self, call: NcbiCall) -> str:
            return json.dumps({"esearchresult": {"count": "5", "idlist": ["1"]}})

    with pytest.raises(NcbiError, check=NCBI_MALFORMED.is_of):
        await list_pmids(Short([1]), PubmedQuery(term="asthma"))


async def test_replies_that_are_too_large_are_asked_for_in_halves(namespaces: Namespaces) -> None:
    """A single one that is too large is passed over and told."""
    done = await add_query(Pubmed([10], largest=3), namespaces, "ns", PubmedQuery(term="asthma"))
    assert done.added.added == 10
    lost = await add_query(Pubmed([12], largest=0), namespaces, "ns", PubmedQuery(term="asthma"))
    assert (lost.known, lost.missing, lost.added.passed) == (10, ("12", "11"), 2)


async def test_what_is_listed_and_not_sent_is_told(namespaces: Namespaces) -> None:
    """Full texts that their publishers keep back are no full texts, and passed over by name."""
    pubmed = Pubmed([12])
    pubmed.closed = {7}
    done = await add_query(pubmed, namespaces, "ns", PubmedQuery(term="asthma", full_text=True))
    assert done.missing == ("7",)
    assert done.full_texts == 3
    assert done.added.passed == 3
    assert all("publisher" in passed.reason for passed in done.added.first_passed)


async def test_what_came_before_an_error_is_kept(namespaces: Namespaces) -> None:
    """The query is not remembered as done; run again it goes on."""
    query = PubmedQuery(term="asthma")
    with pytest.raises(NcbiError, check=NCBI_UNAVAILABLE.is_of):
        await add_query(Pubmed([1000], fails_after=3), namespaces, "ns", query)
    report = verify(namespaces, "ns")
    assert (report.documents, report.whole, report.pending) == (400, True, {"vectors": 0})
    assert queries_of(namespaces, "ns") == []
    done = await add_query(Pubmed([1000]), namespaces, "ns", query)
    assert (done.known, done.added.added) == (400, 600)


async def test_a_cancelled_run_stops_fetching(namespaces: Namespaces) -> None:
    """By its watch, or by the task it runs in; either way the namespace is whole."""
    pubmed = Pubmed([3000])
    heard: list[object] = []
    watch = ChangeHooks(progress=heard.append, cancelled=lambda: len(heard) > 1)
    done = await add_query(pubmed, namespaces, "ns", PubmedQuery(term="asthma"), watch)
    assert done.added.cancelled
    assert len(pubmed.calls) < 10
    task = asyncio.create_task(add_query(pubmed, namespaces, "ns", PubmedQuery(term="asthma")))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert verify(namespaces, "ns").whole


async def test_an_error_of_the_namespace_stops_fetching(namespaces: Namespaces, encoder: WordEncoder) -> None:
    """Before all is fetched for nothing."""

    def fail() -> None:
        raise MemoryError

    encoder.before = fail
    with pytest.raises(MemoryError):
        await add_query(Pubmed([100]), namespaces, "ns", PubmedQuery(term="asthma"))


@pytest.mark.parametrize(
    "fields",
    [
        {"term": " "},
        {"term": "x", "date_from": "2020-01-01"},
        {"term": "x", "date_from": "2020/13/01"},
        {"term": "x", "date_from": "2021/01/01", "date_to": "2020/01/01"},
        {"term": "x", "limit": -1},
    ],
)
def test_queries_that_cannot_be_are_refused(fields: dict[str, object]) -> None:
    """Before anything leaves."""
    with pytest.raises(NamespaceInvalid):
        PubmedQuery(**fields)  # type: ignore[arg-type]
