"""The NCBI client against a loopback server that misbehaves in every way NCBI and networks are known to."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ncbi_server import Answer, Handler, NcbiServer, in_turn

from models.errors import Fault
from retrieval.errors import (
    EGRESS_REFUSED,
    NCBI_BLOCKED,
    NCBI_MALFORMED,
    NCBI_REPLY_ERROR,
    NCBI_THROTTLED,
    NCBI_TIMEOUT,
    NCBI_TOO_LARGE,
    NCBI_UNAVAILABLE,
    NcbiError,
)
from retrieval.ncbi.calls.urls import NcbiSite
from retrieval.ncbi.client.cache import ReplyCache
from retrieval.ncbi.client.client import (
    MAX_AGE_S,
    NEGATIVE_MAX_AGE_S,
    ClientConfig,
    NcbiClient,
    RetryPolicy,
    max_age_s,
    retry_after_s,
)
from retrieval.ncbi.client.transport import HttpSender, SendLimits
from retrieval.types import NcbiCall, RawReply

SEARCH = NcbiCall("esearch", "gene", {"db": "gene", "retmax": "5", "term": "LMP10"})
FOUND = json.dumps({"header": {}, "esearchresult": {"count": "1", "idlist": ["5699"]}}).encode()
KEY = "k3y-0123456789"


class StepClock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


def client_of(url: str, *, retries: int = 2, timeout_s: float = 5.0, max_bytes: int = 2**20, key: str = "",
              clock: StepClock | None = None, cache: ReplyCache | None = None) -> NcbiClient:  # fmt: skip
    config = ClientConfig(
        site=NcbiSite(
            eutils_url=f"{url}/entrez/eutils", blast_url=f"{url}/Blast.cgi", email="a@b.example", api_key=key
        ),
        rate_per_s=0,
        limits=SendLimits(timeout_s=timeout_s, connect_timeout_s=1.0, max_reply_bytes=max_bytes),
        retry=RetryPolicy(retries=retries),
    )
    return NcbiClient(config, clock=clock or StepClock(), jitter=lambda: 1.0, cache=cache)


async def failure(handler: Handler, **options: float) -> tuple[NcbiError, NcbiServer]:
    """The error that a search ends in, and the server with what it has seen."""
    async with NcbiServer(handler) as server:
        client = client_of(server.url, **options)  # type: ignore[arg-type]
        with pytest.raises(NcbiError) as raised:
            await client.fetch(SEARCH)
        await client.aclose()
    return raised.value, server


async def test_a_call_is_rebuilt_with_identity_and_json() -> None:
    """Each request carries tool, e-mail and key, asks for JSON, and goes to the endpoint's path."""
    async with NcbiServer(in_turn(Answer(body=FOUND))) as server:
        client = client_of(server.url, key=KEY)
        reply = await client.fetch(SEARCH)
        await client.aclose()

    assert (reply.status, reply.body, reply.num_bytes, reply.from_cache) == (200, FOUND.decode(), len(FOUND), False)
    assert server.seen[0].path == "/entrez/eutils/esearch.fcgi"
    assert server.seen[0].params == {
        **SEARCH.params, "retmode": "json", "tool": "arrowhead", "email": "a@b.example", "api_key": KEY,
    }  # fmt: skip


async def test_a_long_call_goes_by_post() -> None:
    """What is too long for a URL is sent as a form, with the same parameters."""
    ids = ",".join(["NM_000014567.12"] * 50 + ["1" * 40] * 30)
    async with NcbiServer(in_turn(Answer(body=b'{"result":{"uids":[]}}'))) as server:
        client = client_of(server.url)
        await client.fetch(NcbiCall("esummary", "gene", {"db": "gene", "id": ids}))
        await client.aclose()

    assert server.seen[0].method == "POST"
    assert server.seen[0].params["id"] == ids


async def test_a_refused_connection_is_unavailable_after_all_retries() -> None:
    """A dead upstream ends in a typed error that counts the attempts and shows no key."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    client = client_of(url, key=KEY)

    with pytest.raises(NcbiError, check=NCBI_UNAVAILABLE.is_of) as raised:
        await client.fetch(SEARCH)

    assert raised.value.attempts == 3
    assert "LMP10" in raised.value.url and KEY not in raised.value.url and "email" not in raised.value.url
    await client.aclose()


async def test_a_hanging_socket_times_out() -> None:
    """A server that takes the request and says nothing costs the time limit, not for ever."""
    error, server = await failure(in_turn(Answer(hang=True)), timeout_s=0.5, retries=1)

    assert NCBI_TIMEOUT.is_of(error)
    assert error.message == "NCBI timed out after 0.5 s"
    assert len(server.seen) == 2


async def test_a_slow_trickle_times_out() -> None:
    """A byte now and then does not keep a request alive beyond its total time."""
    error, _ = await failure(in_turn(Answer(body=FOUND, trickle_s=0.05)), timeout_s=0.3, retries=0)

    assert NCBI_TIMEOUT.is_of(error)


async def test_a_storm_of_429_ends_throttled_after_the_asked_pauses() -> None:
    """Each 429 is followed by at least the pause its Retry-After asks for; then the call fails as throttled."""
    clock = StepClock()
    storm = Answer(status=429, headers={"Retry-After": "7"}, body=b'{"error":"API rate limit exceeded"}')
    async with NcbiServer(in_turn(storm)) as server:
        client = client_of(server.url, clock=clock, retries=2)
        with pytest.raises(NcbiError, check=NCBI_THROTTLED.is_of):
            await client.fetch(SEARCH)
        await client.aclose()

    assert len(server.seen) == 3
    assert clock.time >= 14


async def test_a_429_passes() -> None:
    """After the pause the same call succeeds, and says how many attempts it took."""
    async with NcbiServer(in_turn(Answer(status=429), Answer(body=FOUND))) as server:
        client = client_of(server.url)
        reply = await client.fetch(SEARCH)
        await client.aclose()

    assert reply.attempts == 2


async def test_an_endless_retry_after_is_capped() -> None:
    """No server can make a call wait for hours."""
    clock = StepClock()
    async with NcbiServer(in_turn(Answer(status=429, headers={"Retry-After": "86400"}))) as server:
        client = client_of(server.url, clock=clock, retries=1)
        with pytest.raises(NcbiError, check=NCBI_THROTTLED.is_of):
            await client.fetch(SEARCH)
        await client.aclose()

    assert clock.time < 60


async def test_one_429_holds_the_other_calls_back() -> None:
    """The pause that NCBI asks for is the process's, not the call's."""
    clock = StepClock()
    busy = Answer(status=429, headers={"Retry-After": "9"})
    async with NcbiServer(in_turn(busy, Answer(body=FOUND))) as server:
        client = client_of(server.url, clock=clock, retries=0)
        with pytest.raises(NcbiError, check=NCBI_THROTTLED.is_of):
            await client.fetch(SEARCH)
        await client.fetch(NcbiCall("esearch", "gene", {"db": "gene", "term": "other"}))
        await client.aclose()

    assert clock.time >= 9


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("", 0.0),
        ("soon", 0.0),
        ("Sat, 01 Jan 2022 00:00:30 GMT", 30.0),
        ("Fri, 31 Dec 2021 00:00:00 GMT", 0.0),
    ],
)
def test_retry_after_is_a_number_or_a_date(header: str, seconds: float) -> None:
    """Both forms of the header are read; nonsense and the past are no pause."""
    assert retry_after_s(header, datetime(2022, 1, 1, tzinfo=UTC)) == seconds


async def test_pauses_between_retries_grow_to_their_bound() -> None:
    """Exponential back-off, here with the largest jitter, up to the bound."""
    clock = StepClock()
    async with NcbiServer(in_turn(Answer(status=500))) as server:
        client = client_of(server.url, clock=clock, retries=6)
        with pytest.raises(NcbiError, check=NCBI_UNAVAILABLE.is_of):
            await client.fetch(SEARCH)
        await client.aclose()

    assert clock.slept == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


ERRORS = [
    (Answer(status=500, body=b"<html>oops</html>"), NCBI_UNAVAILABLE, 2),
    (Answer(status=503), NCBI_UNAVAILABLE, 2),
    (Answer(drop=True), NCBI_UNAVAILABLE, 2),
    (Answer(body=FOUND, announced=9999), NCBI_UNAVAILABLE, 2),
    (Answer(body=FOUND[:40]), NCBI_MALFORMED, 2),
    (Answer(body=b""), NCBI_MALFORMED, 2),
    (Answer(body=b"<!DOCTYPE html><html><body>Sorry</body></html>"), NCBI_MALFORMED, 2),
    (Answer(body=b'<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "x"><html>'), NCBI_MALFORMED, 2),
    (Answer(body=b"<!DOCTYPE html><html><script src='/recaptcha/api.js'></script></html>"), NCBI_BLOCKED, 1),
    (Answer(status=403, body=b"<html><title>NCBI - WWW Error Blocked Diagnostic</title></html>"), NCBI_BLOCKED, 1),
    (Answer(status=503, body=b"<html>blocked due to a possible misuse/abuse situation</html>"), NCBI_BLOCKED, 1),
    (Answer(body=b'<?xml version="1.0"?>\n<eSearchResult><Count>1</Count><IdLi'), NCBI_MALFORMED, 2),
    (Answer(body=b"x", headers={"Content-Encoding": "gzip"}), NCBI_MALFORMED, 2),
    (Answer(body=b'{"error":"API rate limit exceeded","count":"4","limit":"3"}'), NCBI_THROTTLED, 2),
    (Answer(body=b'{"header":{},"esummaryresult":["NCBI C++ Exception:\n Error: X"]}'), NCBI_UNAVAILABLE, 2),
    (Answer(body=b"<eSearchResult><ERROR>Search Backend failed: x</ERROR></eSearchResult>"), NCBI_UNAVAILABLE, 2),
    (Answer(body=b'{"error":"API key invalid","api-key":"' + KEY.encode() + b'"'), NCBI_REPLY_ERROR, 1),
    (Answer(status=400, body=b'{"error":"API key invalid","api-key":"' + KEY.encode() + b'"}'), NCBI_REPLY_ERROR, 1),
    (Answer(status=400, body=b"<p>Bad   request: id</p>"), NCBI_REPLY_ERROR, 1),
    (Answer(status=414), NCBI_REPLY_ERROR, 1),
]


@pytest.mark.parametrize(("answer", "kind", "requests"), ERRORS)
async def test_each_failure_has_its_type(answer: Answer, kind: Fault, requests: int) -> None:
    """What another try may mend is tried again; what it cannot is not; no key gets into a message."""
    error, server = await failure(in_turn(answer), retries=1)

    assert error.fault is kind
    assert (len(server.seen), error.attempts) == (requests, requests)
    assert KEY not in str(error) and "\n" not in error.message


async def test_an_article_on_captchas_is_no_page_for_people() -> None:
    """Only a web page is one, not a reply that has the word, nor a result page of BLAST."""
    article = b'{"result":{"uids":["1"],"1":{"uid":"1","title":"CAPTCHA and possible abuse"}}}'
    async with NcbiServer(in_turn(Answer(body=article))) as server:
        client = client_of(server.url)
        reply = await client.fetch(NcbiCall("esummary", "pubmed", {"db": "pubmed", "id": "1"}))
        await client.aclose()

    assert "CAPTCHA" in reply.body


@pytest.mark.parametrize(
    "body", [b'{"error":"Invalid uid X at position= 0"}', b'{"esearchresult":{"ERROR":"Invalid db"}}']
)
async def test_an_error_text_about_the_call_is_a_reply(body: bytes) -> None:
    """NCBI's answer to a wrong call is not tried again: reading it is the parser's part."""
    async with NcbiServer(in_turn(Answer(body=body))) as server:
        client = client_of(server.url)
        reply = await client.fetch(SEARCH)
        await client.aclose()

    assert reply.body == body.decode() and len(server.seen) == 1


async def test_a_redirect_is_not_followed() -> None:
    """A redirect to another host ends the call; the other host is never asked."""
    async with NcbiServer(in_turn(Answer(body=FOUND))) as other:
        error, server = await failure(in_turn(Answer(status=302, headers={"Location": other.url + "/x"})))

        assert NCBI_REPLY_ERROR.is_of(error) and "redirect" in error.message
        assert len(server.seen) == 1 and other.seen == []


@pytest.mark.parametrize("announced", [None, -1])
async def test_50_megabytes_are_refused_at_the_cap(announced: int | None) -> None:
    """A huge reply, announced or not, is cut off near the cap, not read to its end, and not asked for again."""
    error, server = await failure(in_turn(Answer(stream_bytes=50 * 2**20, announced=announced)), max_bytes=2**16)

    assert NCBI_TOO_LARGE.is_of(error)
    assert len(server.seen) == 1
    assert server.bytes_sent < 20 * 2**20


async def test_a_remote_base_is_refused_without_a_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    """With remote calls switched off, nothing is resolved and nothing is sent."""
    lookups: list[object] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lambda *a, **k: lookups.append(a))
    client = NcbiClient(ClientConfig())

    with pytest.raises(NcbiError, check=EGRESS_REFUSED.is_of) as raised:
        await client.fetch(SEARCH)

    assert lookups == [] and raised.value.attempts == 0
    await client.aclose()


async def test_proxy_variables_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment cannot send calls through somebody else."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with NcbiServer(in_turn(Answer(body=FOUND))) as server:
        client = client_of(server.url)
        assert (await client.fetch(SEARCH)).status == 200
        await client.aclose()


async def test_logs_hold_no_term_and_no_key(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the level, the question and the key stay out of the logs; endpoint and status are in."""
    caplog.set_level(logging.DEBUG)
    async with NcbiServer(in_turn(Answer(status=500), Answer(body=FOUND))) as server:
        client = client_of(server.url, key=KEY)
        await client.fetch(SEARCH)
        await client.aclose()

    assert "LMP10" not in caplog.text and KEY not in caplog.text
    assert "esearch db=gene status=500 NcbiUnavailable" in caplog.text


async def test_equal_calls_under_way_are_made_once() -> None:
    """Ten callers, one request; the order of parameters makes no difference."""
    turned = NcbiCall("esearch", "gene", dict(reversed(list(SEARCH.params.items()))))
    async with NcbiServer(in_turn(Answer(body=FOUND, delay_s=0.05))) as server:
        client = client_of(server.url)
        replies = await asyncio.gather(*(client.fetch(c) for c in [SEARCH, turned] * 5))
        await client.aclose()

    assert len(server.seen) == 1
    assert {reply.body for reply in replies} == {FOUND.decode()}


async def test_a_cancelled_caller_leaves_the_others_their_reply() -> None:
    """The first caller gives up; the one that waits with it still gets the one request's reply."""
    arrived = asyncio.Event()

    def handler(_: object) -> Answer:
        arrived.set()
        return Answer(body=FOUND, delay_s=0.1)

    async with NcbiServer(handler) as server:
        client = client_of(server.url)
        first, second = (asyncio.create_task(client.fetch(SEARCH)) for _ in range(2))
        await arrived.wait()
        first.cancel()
        reply = await second
        await client.aclose()

    assert first.cancelled() and reply.body == FOUND.decode() and len(server.seen) == 1


async def test_a_call_ends_with_its_last_caller() -> None:
    """When every caller has been cancelled, the call is cancelled, and the next caller starts a new one."""
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with NcbiServer(in_turn(Answer(body=FOUND))) as server:
        client = client_of(server.url)
        callers = [asyncio.create_task(client.fetch(SEARCH, before=hang)) for _ in range(3)]
        await started.wait()
        for caller in callers:
            caller.cancel()
        await asyncio.wait_for(cancelled.wait(), 5)
        reply = await client.fetch(SEARCH)
        await client.aclose()

    assert reply.body == FOUND.decode() and len(server.seen) == 1


async def test_an_error_reaches_every_caller_and_is_not_kept() -> None:
    """All callers that waited get the error; the next call sends a new request."""
    async with NcbiServer(in_turn(Answer(status=400, delay_s=0.05), Answer(body=FOUND))) as server:
        client = client_of(server.url)
        results = await asyncio.gather(*(client.fetch(SEARCH) for _ in range(3)), return_exceptions=True)
        shared = len(server.seen)
        reply = await client.fetch(SEARCH)
        await client.aclose()

    assert all(isinstance(one, NcbiError) and NCBI_REPLY_ERROR.is_of(one) for one in results) and shared == 1
    assert reply.body == FOUND.decode() and len(server.seen) == 2


async def test_good_replies_are_remembered_and_failures_are_not(tmp_path: Path) -> None:
    """After a failure the next call goes out again; after a reply it does not."""
    async with NcbiServer(in_turn(Answer(status=500), Answer(body=FOUND))) as server:
        client = client_of(server.url, retries=0, cache=ReplyCache(tmp_path / "cache.sqlite"))
        with pytest.raises(NcbiError, check=NCBI_UNAVAILABLE.is_of):
            await client.fetch(SEARCH)
        fresh, cached = await client.fetch(SEARCH), await client.fetch(SEARCH)
        await client.aclose()

    assert (fresh.from_cache, cached.from_cache, cached.body) == (False, True, fresh.body)
    assert len(server.seen) == 2


async def test_an_app_in_this_process_answers_without_network() -> None:
    """With an ASGI application given, even a remote base URL stays in the process; its crash is a typed error."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != "/entrez/eutils/esearch.fcgi":
            raise RuntimeError("no such path")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": FOUND})

    sender = HttpSender(SendLimits(), app)
    client = NcbiClient(ClientConfig(retry=RetryPolicy(retries=0)), sender=sender)

    assert (await client.fetch(SEARCH)).body == FOUND.decode()
    with pytest.raises(NcbiError, check=NCBI_UNAVAILABLE.is_of):
        await client.fetch(NcbiCall("einfo", "", {}))
    await client.aclose()


@pytest.mark.parametrize(
    "body",
    [
        '{"esearchresult":{"count":"0","idlist":[]}}',
        "<eSearchResult><Count>0</Count></eSearchResult>",
        '{"error":"Invalid uid X"}',
        '{"result":{"uids":["1"],"1":{"uid":"1","error":"cannot get document summary"}}}',
    ],
)
def test_what_was_not_found_keeps_shorter(body: str) -> None:
    """Tomorrow's NCBI may know what today's does not."""
    call = NcbiCall("esearch", "gene", {"db": "gene", "term": "x"})

    assert max_age_s(call, RawReply(200, "", body, len(body))) == NEGATIVE_MAX_AGE_S
    assert max_age_s(call, RawReply(200, "", '{"esearchresult":{"count":"10"}}', 9)) == MAX_AGE_S["esearch"]


def test_what_was_posted_is_not_kept() -> None:
    """Its WebEnv ends, and no later call has the same one; nor is a failed post repeated from the cache."""
    post = NcbiCall("epost", "pubmed", {"db": "pubmed", "id": "1,2"})
    page = NcbiCall("efetch", "pubmed", {"db": "pubmed", "query_key": "1", "WebEnv": "MCID_1", "retmode": "xml"})
    for call, body in ((post, "<ePostResult><ERROR>x</ERROR></ePostResult>"), (page, "<PubmedArticleSet/>")):
        assert max_age_s(call, RawReply(200, "text/xml", body, len(body))) == 0
