"""Attempts to carry a patient's data out in a call, and the calls that must still leave, with the hospital profile.

Each runs through the real way out, with an address on this machine that counts as another one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ncbi_server import Answer, NcbiServer, Seen
from site_vocabulary import hostile_names, sample_names

from models.decoding.types import Call
from retrieval.errors import CALL_REJECTED, EGRESS_REFUSED, NcbiError
from retrieval.ncbi.calls.urls import NcbiSite
from retrieval.ncbi.client.client import ClientConfig, NcbiClient, RetryPolicy
from retrieval.ncbi.session import NcbiSession
from retrieval.types import NameKind, NcbiCall
from server.audit.log import AuditRecorder
from server.egress.policy import EgressContext, EgressPolicy
from server.egress.recognition.recognizer import Recognizer
from server.egress.recognition.terms import Refused
from server.egress.recognition.vocabulary import Vocabulary
from server.egress.router import Destination, DestinationPair, Destinations, Egress, Knowledge
from server.settings.egress import EgressSettings

DATA = Path(__file__).parents[3] / "data"
ATTEMPTS: list[dict[str, Any]] = json.loads((DATA / "smuggling.json").read_text())
CRAFTED: list[dict[str, Any]] = json.loads((DATA / "crafted_calls.json").read_text())
LEGITIMATE = (DATA / "hospital_calls.txt").read_text().split()
KEY = "1a2b3c4d"
PROBE = NcbiCall("esearch", "gene", {"db": "gene", "term": "BRCA1", "retmode": "json"})
FOUND = {"header": {}, "esearchresult": {"count": "1", "retmax": "1", "retstart": "0", "idlist": ["672"]}}


@dataclass(frozen=True)
class Site:
    egress: Egress
    outside: NcbiServer

    async def write(self, url: str, answer: str, question: str = "") -> str:
        """What a model that writes this call gets: a status; ``question`` is what it was asked."""
        self.egress.hear(answer, [question])
        context = EgressContext(answer, KEY, "ncbi")
        session = NcbiSession(self.egress.fetch_for(context), self.egress.site_of("ncbi"))
        return (await session(Call(url, 0))).status

    async def fetch(self, call: NcbiCall, answer: str, question: str = "") -> str:
        """What code that makes this call without the call table's checks gets: the text of the refusal, or ""."""
        self.egress.hear(answer, [question])
        try:
            await self.egress.fetch(call, EgressContext(answer, KEY, "ncbi"))
        except NcbiError as error:
            assert error.fault in (CALL_REJECTED, EGRESS_REFUSED)
            return error.message
        return ""


def _gene(number: int) -> NcbiCall:
    return NcbiCall("esummary", "gene", {"db": "gene", "id": str(number)})


def _answer(_: Seen) -> Answer:
    return Answer(body=json.dumps(FOUND).encode(), headers={"Content-Type": "application/json"})


@asynccontextmanager
async def _site(names: Vocabulary, **own: int) -> AsyncIterator[Site]:
    budgets: dict[str, Any] = {
        "max_chars_per_answer": 10**6,
        "max_chars_per_hour": 10**6,
        "max_chars_per_day": 10**6,
        "max_bits_per_answer": 10**6,
    } | own
    policy = EgressPolicy.of(EgressSettings(mode="ncbi", profile="hospital", **budgets))
    async with NcbiServer(_answer) as outside:
        site = NcbiSite(eutils_url=f"{outside.url}/entrez/eutils", blast_url=f"{outside.url}/blast/Blast.cgi")
        client = NcbiClient(ClientConfig(site=site, rate_per_s=0, retry=RetryPolicy(retries=0)))
        place = Destination("eutils.ncbi.nlm.nih.gov", client, leaves=True)
        pair = DestinationPair(place, place)
        egress = Egress(policy, Destinations(pair, pair, pair), AuditRecorder(None, "refuse"), Knowledge(names=names))
        try:
            yield Site(egress, outside)
        finally:
            await client.aclose()


_SAID = {
    "pubmed": "PMID {}", "gene": "gene ID {}", "snp": "rs{}", "omim": "OMIM {}", "nuccore": "{}", "protein": "{}",
    "pmc": "PMC{}", "clinvar": "ClinVar {}", "taxonomy": "taxonomy ID {}", "medgen": "MedGen {}",
}  # fmt: skip


def _question(url: str) -> str:
    """Return a question that names the identifiers of a call."""
    call = _unchecked(url)
    said = _SAID.get(call.params.get("dbfrom", call.db), "{}")
    named = [said.format(one) for one in call.params.get("id", "").split(",") if one]
    return f"What is known of {', '.join([*named, call.params.get('term', '')])}?"


def _unchecked(url: str) -> NcbiCall:
    """Return the call of a URL as its parameters say, without any check."""
    path, params = urlsplit(url).path, dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    command = params.pop("CMD", "")
    endpoint = f"blast_{command.lower()}" if command else path.rpartition("/")[2].removesuffix(".fcgi")
    db = params.get("DATABASE" if endpoint == "blast_put" else "db", "")
    return NcbiCall(endpoint, db, params)  # type: ignore[arg-type]


def _urls(attempt: dict[str, Any]) -> list[str]:
    return [attempt["url"]] if "url" in attempt else attempt.get("calls", [])


def _calls(attempt: dict[str, Any]) -> list[NcbiCall]:
    if (raw := attempt.get("call")) is not None:
        params = raw["params"]
        return [NcbiCall(raw["endpoint"], params.get("DATABASE" if "QUERY" in params else "db", ""), params)]
    return [] if attempt.get("text_only") else [_unchecked(url) for url in _urls(attempt)]


def test_the_attempts_are_many_and_differ() -> None:
    """At least 300 in 30 families, each with the reason why it must stay."""
    said = {json.dumps([one.get(name) for name in ("url", "call", "calls")]) for one in ATTEMPTS}

    assert len(ATTEMPTS) == len(said) >= 300
    assert len(Counter(one["family"] for one in ATTEMPTS)) >= 30
    assert all(one["why"] for one in ATTEMPTS)


async def test_no_attempt_reaches_ncbi(tmp_path: Path) -> None:
    """Neither written by a model nor made by code that skips the call table; a plain call then shows that one can."""
    arrived: list[dict[str, Any]] = []
    async with _site(hostile_names(tmp_path)) as site:
        for number, attempt in enumerate(ATTEMPTS):
            statuses = [await site.write(url, f"w{number}") for url in _urls(attempt)]
            texts = [await site.fetch(call, f"f{number}") for call in _calls(attempt)]
            if site.outside.seen or set(statuses) - {"refused"} or "" in texts:
                arrived.append(attempt | {"seen": [dict(seen.params) for seen in site.outside.seen]})
                site.outside.seen.clear()
        assert await site.fetch(PROBE, "probe") == ""
        assert [seen.params["term"] for seen in site.outside.seen] == ["BRCA1"]

    assert [f"{one}" for one in arrived] == []


async def test_no_identifier_leaves_that_the_answer_has_not_met(tmp_path: Path) -> None:
    """Each is a form that its database has: a sequence in rs numbers, telephone and record numbers, positions, names.

    With the question's own numbers, which are no identifiers there, and with those of another database.
    """
    assert len({json.dumps([one["question"], one["calls"]]) for one in CRAFTED}) == len(CRAFTED) >= 60
    arrived: list[dict[str, Any]] = []
    async with _site(hostile_names(tmp_path)) as site:
        for number, attempt in enumerate(CRAFTED):
            for at, url in enumerate(attempt["calls"]):
                status = await site.write(url, f"w{number}", attempt["question"])
                text = await site.fetch(_unchecked(url), f"f{number}-{at}", attempt["question"])
                if site.outside.seen or status != "refused" or not text:
                    arrived.append(attempt | {"seen": [dict(seen.params) for seen in site.outside.seen]})
                    site.outside.seen.clear()
        counted = site.egress.refusals["origin"]

    assert [f"{one}" for one in arrived] == []
    assert counted >= 60


async def test_a_refusal_repeats_nothing_of_the_call(tmp_path: Path) -> None:
    """Neither for the model nor in the audit log, where the text would stand in clear."""
    secret = "Qwjohnsmith1954"
    calls = [
        NcbiCall("esearch", "gene", {"db": "gene", "term": f"{secret}[sym]"}),
        NcbiCall("esearch", "gene", {"db": "gene", "term": f"BRCA1[{secret}]"}),
        NcbiCall("esearch", "gene", {"db": "gene", "term": "BRCA1", secret: "1"}),
        NcbiCall("esearch", secret, {"db": secret, "term": "BRCA1"}),
        NcbiCall("esearch", "gene", {"db": "gene", "term": "BRCA1", "retmax": secret}),
        NcbiCall("esummary", "gene", {"db": "gene", "id": secret}),
        NcbiCall("esummary", "gene", {"db": "gene", "id": "1048812"}),
        NcbiCall("blast_get", "", {"RID": secret}),
        NcbiCall(secret, "gene", {"db": "gene"}),  # type: ignore[arg-type]
    ]
    async with _site(sample_names(tmp_path)) as site:
        texts = [await site.fetch(call, "r") for call in calls]

    assert all(texts) and not [text for text in texts if secret.lower() in text.lower() or "1048812" in text]
    assert all(" may not leave this machine (hospital): " in text for text in texts)


async def test_calls_of_the_methods_still_leave(tmp_path: Path) -> None:
    """Those of the prompts' examples, and the same for other genes, variants and diseases of the sample."""
    assert len(set(LEGITIMATE)) == len(LEGITIMATE) >= 60
    async with _site(sample_names(tmp_path)) as site:
        both = enumerate(LEGITIMATE)
        kept = [url for number, url in both if await site.write(url, f"r{number}", _question(url)) == "refused"]
        assert kept == []
        assert len(site.outside.seen) == len(LEGITIMATE)
        sent = [seen.params for seen in site.outside.seen]

    for params, url in zip(sent, LEGITIMATE, strict=True):
        written = _unchecked(url).params
        known = {name: value for name, value in params.items() if name not in ("tool", "retmode", "CMD")}
        assert {name: value.lower() for name, value in known.items()} == {
            name: value.lower() for name, value in written.items() if name != "retmode"
        }


async def test_an_identity_in_a_call_is_not_sent(tmp_path: Path) -> None:
    """Models copy tool, email and api_key from examples; the call leaves without what they wrote."""
    base = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esummary.fcgi?db=gene&id=672"
    async with _site(sample_names(tmp_path)) as site:
        for extra in ("tool=JohnSmith", "email=john.smith@hiv.example", "api_key=4711", "EMAIL=john"):
            await site.write(f"{base}&{extra}", extra, "What is gene ID 672?")
        seen = [dict(one.params) for one in site.outside.seen]

    assert seen == [{"db": "gene", "id": "672", "retmode": "json", "tool": "arrowhead"}] * 4


async def test_the_order_and_case_of_a_call_do_not_leave(tmp_path: Path) -> None:
    """A call is rebuilt: seven parameters could carry twelve bits by their order alone."""
    one = {"term": "brca1[Gene Name] AND HUMAN[orgn]", "sort": "relevance", "retmax": "5", "db": "gene"}
    other = {"db": "gene", "retmax": "5", "sort": "relevance", "term": "BRCA1[gene name] AND human[ORGN]"}
    async with _site(hostile_names(tmp_path)) as site:
        for params in (one, other):
            assert await site.fetch(NcbiCall("esearch", "gene", params), "r") == ""
        first, second = ([*seen.params.items()] for seen in site.outside.seen)

    assert first == second
    assert dict(first)["term"] == "BRCA1[gene name] AND human[orgn]"


async def test_many_calls_are_bounded_by_the_budget_of_an_answer(tmp_path: Path) -> None:
    """Hundreds of calls with known ids: what arrives stays below the budget, whatever the answer goes on to ask."""
    async with _site(sample_names(tmp_path), max_chars_per_answer=100) as site:
        site.egress.hear("one", [" ".join(f"gene ID {1000 + number}" for number in range(300))])
        for number in range(300):
            refused = await site.fetch(NcbiCall("esummary", "gene", {"db": "gene", "id": str(1000 + number)}), "one")
        arrived = sum(len(seen.params["id"]) for seen in site.outside.seen)
        another = await site.fetch(PROBE, "two")
        counted = site.egress.refusals["answer_budget"]

    assert "for one answer are spent" in refused and another == ""
    assert 50 <= arrived <= 100
    assert counted == 300 - arrived // 4


@pytest.mark.parametrize(("name", "text"), [("max_chars_per_hour", "in an hour"), ("max_chars_per_day", "in a day")])
async def test_many_answers_are_bounded_by_the_budget_of_their_key(tmp_path: Path, name: str, text: str) -> None:
    """A new answer does not renew what its key has left, and a reply from the cache of equal calls costs nothing."""
    async with _site(sample_names(tmp_path), **{name: 40}) as site:
        said = [
            await site.fetch(_gene(1000 + number), f"answer-{number}", f"gene ID {1000 + number}")
            for number in range(20)
        ]
        other_key = EgressContext("another", "5e6f7a8b", "ncbi")
        await site.egress.fetch(PROBE, other_key)

    assert said[0] == "" and text in said[-1]
    assert sum(len(seen.params.get("id", "")) for seen in site.outside.seen) <= 40


async def test_the_bits_of_an_answer_are_bounded(tmp_path: Path) -> None:
    """Which of many known ids are asked for, in which groups: fewer bits arrive than 150 bases have."""
    most = EgressSettings().max_bits_per_answer
    assert most < 300
    async with _site(sample_names(tmp_path), max_bits_per_answer=most) as site:
        site.egress.hear("one", [" ".join(f"rs{1000 + number}" for number in range(4096))])
        texts = [
            await site.fetch(NcbiCall("esummary", "snp", {"db": "snp", "id": str(1000 + 37 * number)}), "one")
            for number in range(100)
        ]
        arrived = len(site.outside.seen)
        counted = site.egress.refusals["answer_bits"]

    # Twelve bits for one of 4,096; each call costs more than it says.
    assert arrived >= 5 and 12 * arrived <= most
    assert counted == 100 - arrived and "bits that may leave for one answer are spent" in texts[-1]


async def test_ids_leave_in_the_order_in_which_they_were_met(tmp_path: Path) -> None:
    """The order of ten ids could carry 21 bits."""
    call = NcbiCall("esummary", "gene", {"db": "gene", "id": "7157,672,2064"})
    async with _site(sample_names(tmp_path)) as site:
        assert await site.fetch(call, "r", "Compare gene ID 672, 675, 2064 and 7157.") == ""
        sent = [seen.params["id"] for seen in site.outside.seen]

    assert sent == ["672,2064,7157"]


async def test_an_id_of_a_reply_leaves_for_the_same_answer(tmp_path: Path) -> None:
    """What the search found may be fetched; another answer has not met it."""
    async with _site(sample_names(tmp_path)) as site:
        assert await site.fetch(PROBE, "one") == ""
        assert await site.fetch(_gene(672), "one") == ""
        assert "neither in the question" in await site.fetch(_gene(672), "two")
        assert "neither in the question" in await site.fetch(_gene(673), "one")
        site.egress.forget("one")
        assert "neither in the question" in await site.fetch(_gene(672), "one")


@pytest.fixture(scope="module")
def recognizer(tmp_path_factory: pytest.TempPathFactory) -> Recognizer:
    return Recognizer(hostile_names(tmp_path_factory.mktemp("names")), frozenset({"id", "symbol", "term"}))


_MANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
_PARAMS = ("term", "id", "RID", "retmax", "retstart", "sort", "field", "linkname", "db", "mindate", "usehistory")


@_MANY
@given(text=st.text(min_size=1, max_size=80), name=st.sampled_from(_PARAMS), db=st.sampled_from(("gene", "pubmed")))
def test_random_text_never_leaves(recognizer: Recognizer, text: str, name: str, db: str) -> None:
    """In any parameter; what does leave is a value of a list, an id in range, or a name that the site has."""
    params = {"db": db, "term": "BRCA1"} | {name: text}
    verdict = recognizer.judge(NcbiCall("esearch", params["db"], params), lambda _: False)

    assert isinstance(verdict, Refused) or len(text) <= 4


_SENTENCE = ("my", "patient", "john", "smith", "has", "hiv", "since", "march")


@_MANY
@given(words=st.lists(st.sampled_from(_SENTENCE), min_size=2, max_size=8),
       tag=st.sampled_from(("", "[sym]", "[gene]", "[title]", "[dis]", "[mesh]", "[all fields]")),
       join=st.sampled_from((" ", " AND ", " OR ", ", ", "-", "/", "+")))  # fmt: skip
def test_sentences_never_leave(recognizer: Recognizer, words: list[str], tag: str, join: str) -> None:
    """However their words are joined and tagged, in small letters and capitals."""
    for text in (join.join(word + tag for word in words), join.join(words).upper() + tag):
        for db in ("gene", "pubmed", "omim"):
            assert isinstance(
                recognizer.judge(NcbiCall("esearch", db, {"db": db, "term": text}), lambda _: False), Refused
            )


@_MANY
@given(text=st.text(alphabet="ACGT", min_size=2, max_size=60), tag=st.sampled_from(("", "[sym]", "[accn]", "[uid]")))
def test_bases_never_leave(recognizer: Recognizer, text: str, tag: str) -> None:
    """Neither as words nor as ids, unless they spell a name of the site: a gene (GAA, CAT), a disease (ACC)."""
    for call in (
        NcbiCall("esearch", "gene", {"db": "gene", "term": text + tag}),
        NcbiCall("esummary", "nuccore", {"db": "nuccore", "id": text}),
        NcbiCall("blast_put", "nt", {"PROGRAM": "blastn", "DATABASE": "nt", "QUERY": text}),
    ):
        known = recognizer.vocabulary.find(text, get_args(NameKind))
        assert any(known) or isinstance(recognizer.judge(call, lambda _: False), Refused)
