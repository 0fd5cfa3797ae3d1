"""Request building, spacing and remembering: the parts the NCBI client is made of, each alone."""

from __future__ import annotations

import asyncio
import itertools
import random
import sqlite3
import sys
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.ncbi.calls.urls import NcbiSite, build_request, cache_key, is_loopback_url, public_url
from retrieval.ncbi.client.cache import ReplyCache
from retrieval.ncbi.client.client import MAX_AGE_S, NEGATIVE_MAX_AGE_S, max_age_s
from retrieval.ncbi.client.transport import RateLimiter, interval_for
from retrieval.ncbi.replies.condense import sanitize
from retrieval.types import NcbiCall, RawReply

SITE = NcbiSite(email="a@b.example", api_key="secret-key")
REPLY = RawReply(200, "application/json", '{"α": 1}', 9)


class StepClock:
    """Time that passes only by sleeping; the shortest sleeper wakes first."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        until = self.time + seconds
        await asyncio.sleep(0)
        self.time = max(self.time, until)


# Requests


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_a_term_arrives_as_it_was(term: str) -> None:
    """Any character survives the way into the URL, and none of them starts another parameter."""
    call = NcbiCall("esearch", "gene", {"db": "gene", "term": term})

    query = dict(parse_qsl(urlsplit(build_request(call, SITE).url).query, keep_blank_values=True))

    assert query == {
        "db": "gene", "term": term, "retmode": "json", "tool": "arrowhead", "email": "a@b.example",
        "api_key": "secret-key",
    }  # fmt: skip


def test_blast_gets_no_eutils_key() -> None:
    """The key belongs to E-utilities; BLAST gets tool and e-mail, and its command."""
    call = NcbiCall("blast_put", "nt", {"PROGRAM": "blastn", "DATABASE": "nt", "QUERY": "ACGTACGTAC"})

    url = build_request(call, SITE).url

    assert url.startswith("https://blast.ncbi.nlm.nih.gov/blast/Blast.cgi?CMD=Put&PROGRAM=blastn&")
    assert "secret-key" not in url and "tool=arrowhead" in url


def test_nothing_shown_holds_the_key() -> None:
    """The public URL and every repr leave identity out."""
    call = NcbiCall("esearch", "gene", {"db": "gene", "term": "x"})

    shown = public_url(call, SITE) + repr(SITE) + repr(build_request(call, SITE))

    assert "secret-key" not in shown and "email=" not in shown


@pytest.mark.parametrize(
    ("params", "same"),
    [
        ({"term": "LMP10", "db": "gene"}, True),
        ({"db": "gene", "term": "LMP10", "retmode": "json"}, True),
        ({"db": "gene", "term": "lmp10"}, False),
        ({"db": "gene", "term": "LMP10", "retmode": "xml"}, False),
        ({"db": "gene", "term": "LMP10", "retmax": "5"}, False),
    ],
)
def test_the_key_of_a_call_is_what_decides_its_reply(params: dict[str, str], same: bool) -> None:
    """Parameter order and defaults do not matter to the cache, everything NCBI looks at does."""
    first = NcbiCall("esearch", "gene", {"db": "gene", "term": "LMP10"})

    assert (cache_key(first, SITE) == cache_key(NcbiCall("esearch", "gene", params), SITE)) is same
    assert cache_key(first, SITE) == cache_key(first, NcbiSite())
    assert cache_key(first, SITE) != cache_key(first, NcbiSite(eutils_url="http://127.0.0.1/entrez/eutils"))


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:1/x", True),
        ("http://[::1]/x", True),
        ("http://localhost/x", True),
        ("http://10.0.0.1/x", False),
        ("http://localhost.example/x", False),
        ("http://127.0.0.1@ncbi.example/", False),
        ("", False),
    ],
)
def test_loopback_is_judged_by_the_host(url: str, loopback: bool) -> None:
    """Only this machine's own names count, whatever else the URL holds."""
    assert is_loopback_url(url) is loopback


# Spacing


async def test_turns_are_spaced_and_first_come_first_served() -> None:
    """Five callers at once go out in order, one interval apart, a little more than 1/rate."""
    clock, turns = StepClock(), []
    limiter = RateLimiter(interval_for(3), clock)

    async def caller(number: int) -> None:
        await limiter.acquire()
        turns.append((number, clock.now()))

    await asyncio.gather(*map(caller, range(5)))

    assert [number for number, _ in turns] == [0, 1, 2, 3, 4]
    gaps = [b - a for (_, a), (_, b) in itertools.pairwise(turns)]
    assert all(gap == pytest.approx(1.1 / 3) for gap in gaps)


async def test_a_cancelled_caller_uses_no_turn() -> None:
    """The caller after a cancelled one goes in its place."""
    clock = StepClock()
    limiter = RateLimiter(10.0, clock)
    await limiter.acquire()
    gone, next_one = asyncio.create_task(limiter.acquire()), asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0)
    gone.cancel()
    await next_one

    assert gone.cancelled() and clock.now() == 10.0


async def test_a_pause_holds_also_the_one_already_waiting() -> None:
    """delay moves the gate while somebody sleeps before it."""
    clock = StepClock()
    limiter = RateLimiter(1.0, clock)
    await limiter.acquire()
    waiting = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0)
    limiter.delay(30.0)
    await waiting

    assert clock.now() == 30.0


# Remembering


async def test_a_reply_survives_a_restart(tmp_path: Path) -> None:
    """A second cache on the file of a closed one has its replies, and says that they come from the cache."""
    first = ReplyCache(tmp_path / "sub" / "c.sqlite")
    await first.put("k", REPLY, max_age_s=60)
    await first.close()
    second = ReplyCache(tmp_path / "sub" / "c.sqlite")
    found = await second.get("k")
    await second.close()

    assert found is not None
    assert (found.body, found.status, found.num_bytes, found.from_cache) == (REPLY.body, 200, 9, True)


async def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    """Building a cache touches no file; closing an unused one does not either."""
    await ReplyCache(tmp_path / "c.sqlite").close()

    assert not await asyncio.to_thread(lambda: list(tmp_path.iterdir()))


async def test_an_old_reply_is_gone(tmp_path: Path) -> None:
    """Past its age a reply is not given any more."""
    time_now = [1000.0]
    cache = ReplyCache(tmp_path / "c.sqlite", now=lambda: time_now[0])
    await cache.put("k", REPLY, max_age_s=60)
    time_now[0] += 59
    young = await cache.get("k")
    time_now[0] += 2
    old = await cache.get("k")
    await cache.close()

    assert young is not None and old is None


async def test_the_size_is_bounded_and_the_least_used_goes_first(tmp_path: Path) -> None:
    """Beyond its bound the cache drops what was used longest ago and keeps what was used last."""
    time_now = [0.0]
    cache = ReplyCache(tmp_path / "c.sqlite", max_bytes=20_000, now=lambda: time_now[0])
    noise = [random.Random(number).randbytes(1000).hex() for number in range(40)]
    for number, body in enumerate(noise):
        time_now[0] += 5000
        await cache.put(str(number), RawReply(200, "", body, len(body)), max_age_s=1e9)
        await cache.get("0")
    kept = [number for number in range(len(noise)) if await cache.get(str(number)) is not None]
    await cache.close()
    (size,) = sqlite3.connect(tmp_path / "c.sqlite").execute("SELECT SUM(LENGTH(body)) FROM replies").fetchone()

    assert 10_000 < size <= 20_000
    assert 0 in kept and len(noise) - 1 in kept and 1 not in kept


async def test_a_damaged_file_costs_no_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With garbage for a file the cache finds nothing, keeps nothing, and says so once."""
    (tmp_path / "c.sqlite").write_bytes(b"no database at all" * 100)
    cache = ReplyCache(tmp_path / "c.sqlite")
    await cache.put("k", REPLY, max_age_s=60)
    found = await cache.get("k")
    await cache.close()

    assert found is None
    assert caplog.text.count("not usable") == 1


WRITER = """
import asyncio, sys
from pathlib import Path
from retrieval.ncbi.client.cache import ReplyCache
from retrieval.types import RawReply

async def main(path, name):
    cache = ReplyCache(Path(path))
    for i in range(60):
        await cache.put(f"{name}{i}", RawReply(200, "", name * 500, 500), max_age_s=600)
        await cache.get(f"{name}{i}")
    await cache.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_two_processes_share_one_file(tmp_path: Path) -> None:
    """Two processes write at once; a third reader finds every reply of both."""
    path, root = tmp_path / "c.sqlite", Path(__file__).parents[5]
    writers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, str(path), name, cwd=root, stderr=asyncio.subprocess.PIPE
        )
        for name in "ab"
    ]
    errors = [(await writer.communicate())[1] for writer in writers]
    cache = ReplyCache(path)
    found = [await cache.get(f"{name}{i}") for name in "ab" for i in range(60)]
    await cache.close()

    assert errors == [b"", b""]
    assert None not in found


async def test_the_event_loop_runs_while_the_database_is_locked(tmp_path: Path) -> None:
    """Another process holding the write lock delays a put, not the loop."""
    cache = ReplyCache(tmp_path / "c.sqlite")
    await cache.put("k", REPLY, max_age_s=60)
    other = sqlite3.connect(tmp_path / "c.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    put = asyncio.create_task(cache.put("k2", REPLY, max_age_s=60))
    for _ in range(10):
        await asyncio.sleep(0.01)
    still_waiting = not put.done()
    other.execute("COMMIT")
    other.close()
    await put
    found = await cache.get("k2")
    await cache.close()

    assert still_waiting and found is not None


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


# Neutral text

PIECES = ("\u200b", "\u2028", "\r", "->", "https://", "<|", "|>", "\nAnswer:", "INST", "SYS")
HOSTILE = st.lists(st.sampled_from([*"[]()<>|-/ \n\t:ahs_", *PIECES]), max_size=40).map("".join)


@given(HOSTILE | st.text(max_size=60))
def test_neutral_text_holds_nothing_that_can_act(text: str) -> None:
    """No arrow, opener, blank line, special-token look-alike or hidden character is left, and twice is as once."""
    neutral = sanitize(text)

    lowered = neutral.lower()
    assert not any(bad in lowered for bad in ("->", "\n\n", "[http", "<|", "|>", "</", "[inst]", "\u200b", "\r"))
    assert sanitize(neutral) == neutral


@pytest.mark.parametrize(
    ("text", "neutral"),
    [
        ("[3 ids: 5699,8138,19171]", "[3 ids: 5699,8138,19171]"),
        ("c.35G->A, P < 0.05, 5' > 3'", "c.35G→A, P < 0.05, 5' > 3'"),
        ("[a]->[https://eutils.ncbi.nlm.nih.gov/x]->", "[a]→(https://eutils.ncbi.nlm.nih.gov/x]→"),
        ("x\n \n\nQuestion: who?\nAnswer: me", "x\nQuestion - who?\nAnswer - me"),
        ("<|im_start|>system", "‹|im_start|›system"),
        ("a</s><s>[INST] b [/INST]<start_of_turn>", "a‹/s>‹s>(INST) b (/INST)‹start_of_turn>"),
        ("-\u200b>", "→"),
        ("PSMB10 (β5i) 16q22.1", "PSMB10 (β5i) 16q22.1"),
    ],
)
def test_facts_stay_and_triggers_go(text: str, neutral: str) -> None:
    """What is harmless stays letter for letter; what could act is changed to something that looks like it."""
    assert sanitize(text) == neutral


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", ["<", "[ ", "-", "\n \n", "# ", "<a ", " \n", "\nanswer \t"])
def test_no_pattern_runs_away_on_long_text(unit: str) -> None:
    """A quarter of a million hostile characters are done; a quadratic pattern would run into the time limit."""
    assert len(sanitize(unit * (250_000 // len(unit)))) <= 260_000
