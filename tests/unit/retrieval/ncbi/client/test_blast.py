"""BLAST as one step: each status page leads where it should, at the pace NCBI asks for."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping

import pytest
from step_clock import StepClock

from retrieval.errors import BLAST_FAILED, NCBI_MALFORMED, NCBI_TIMEOUT, NcbiError
from retrieval.ncbi.client.blast import BlastRunner, BlastTiming
from retrieval.types import NcbiCall, RawReply

PUT = NcbiCall("blast_put", "nt", {"PROGRAM": "blastn", "DATABASE": "nt", "QUERY": "ACGTACGTACGT", "HITLIST_SIZE": "5"})
RESULT = (
    "<p><!--\nQBlastInfoBegin\n\tStatus=READY\nQBlastInfoEnd\n--><p>\n<PRE>\nBLASTN 2.14.0+\nStatus=WAITING is text"
)
SUBMITTED = "<!--QBlastInfoBegin\n    RID = 52V2HPJ2013  \n    RTOE = 31  \nQBlastInfoEnd\n-->"
WEB_PAGE = "<!DOCTYPE html><html><!--\nQBlastInfoBegin\n\tStatus=READY\nQBlastInfoEnd\n--></html>"


class Blast:
    """NCBI's BLAST as a function of the clock: ready after ``ready_after`` looks, in the given words."""

    def __init__(self, clock: StepClock, *, status: str = "READY", looks: int = 0) -> None:
        self.clock = clock
        self.status = status
        self.waiting = looks
        self.submitted = SUBMITTED
        self.results: Callable[[Mapping[str, str]], str] = lambda _: RESULT
        self.sent: list[tuple[float, str]] = []

    async def __call__(self, call: NcbiCall) -> RawReply:
        kind = "put" if call.endpoint == "blast_put" else call.params.get("FORMAT_OBJECT") or call.params["FORMAT_TYPE"]
        self.sent.append((self.clock.now(), kind))
        body = {"put": self.submitted, "SearchInfo": self._info()}.get(kind) or self.results(call.params)
        return RawReply(200, "text/html", body, len(body))

    def _info(self) -> str:
        if self.sent[-1][1] != "SearchInfo":
            return ""
        self.waiting -= 1
        status = "WAITING" if self.waiting >= 0 else self.status
        return f"<!--\nQBlastInfoBegin\n\tStatus={status}\nQBlastInfoEnd\n-->"

    @property
    def kinds(self) -> list[str]:
        return [kind for _, kind in self.sent]


def runner(blast: Blast, **timing: float) -> BlastRunner:
    return BlastRunner(blast, BlastTiming(**timing), blast.clock)  # type: ignore[arg-type]


async def test_a_put_comes_back_as_its_result() -> None:
    """Submit, first look after RTOE, then a look a minute, then the result, in Text."""
    blast = Blast(StepClock(100.0), looks=2)

    reply = await runner(blast).run(PUT, "k")

    assert reply.body == RESULT and reply.attempts == 5
    assert blast.sent == [
        (100.0, "put"), (131.0, "SearchInfo"), (191.0, "SearchInfo"), (251.0, "SearchInfo"), (251.0, "Text"),
    ]  # fmt: skip


async def test_the_same_search_is_not_submitted_twice() -> None:
    """A second call with the same key uses the first one's RID, within the pace of that RID."""
    blast = Blast(StepClock(100.0))
    blasts = runner(blast)
    await blasts.run(PUT, "k")
    await blasts.run(PUT, "k")

    assert blast.kinds == ["put", "SearchInfo", "Text", "SearchInfo", "Text"]
    assert blast.sent[3][0] - blast.sent[1][0] >= 60


async def test_a_search_given_up_is_taken_up_again() -> None:
    """A caller cancelled while it waited leaves the RID; the next caller does not submit again."""
    blast = Blast(StepClock(100.0), looks=10**6)
    blasts = runner(blast, total_timeout_s=1e9)
    caller = asyncio.create_task(blasts.run(PUT, "k"))
    while len(blast.sent) < 3:  # noqa: ASYNC110 - the double has no event to wait for
        await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    blast.waiting = 0
    await blasts.run(PUT, "k")

    assert blast.kinds.count("put") == 1


async def test_an_expired_rid_is_submitted_again() -> None:
    """When NCBI has forgotten a remembered RID, the search starts over instead of failing."""
    blast = Blast(StepClock(100.0))
    blasts = runner(blast)
    await blasts.run(PUT, "k")
    blast.status = "UNKNOWN"
    again = asyncio.create_task(blasts.run(PUT, "k"))
    while blast.kinds.count("put") < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    blast.status = "READY"

    assert (await again).body == RESULT


@pytest.mark.parametrize(("status", "message"), [("UNKNOWN", "expired"), ("FAILED", "failed"), ("ERROR", "failed")])
async def test_a_search_that_ends_badly_is_typed(status: str, message: str) -> None:
    """UNKNOWN and FAILED end the call at once, and are not remembered as a search."""
    blast = Blast(StepClock(100.0), status=status)
    blasts = runner(blast)
    with pytest.raises(NcbiError, match=message, check=BLAST_FAILED.is_of):
        await blasts.run(PUT, "k")
    blast.status = "READY"
    await blasts.run(PUT, "k")

    assert blast.kinds.count("put") == 2


async def test_a_search_that_never_ends_times_out() -> None:
    """The total time bounds the wait; no look is made past it."""
    blast = Blast(StepClock(100.0), looks=10**6)

    with pytest.raises(NcbiError, match="not ready after 300 s", check=NCBI_TIMEOUT.is_of):
        await runner(blast, total_timeout_s=300).run(PUT, "k")

    assert blast.sent[-1][0] <= 400


async def test_a_refused_query_says_why() -> None:
    """A Put page without RID is an error with NCBI's own reason."""
    blast = Blast(StepClock(100.0))
    blast.submitted = '<html><p class="error">Message ID#32 Error: Query contains no data: &quot;x&quot;</p></html>'

    with pytest.raises(NcbiError, match='Query contains no data: "x"', check=BLAST_FAILED.is_of):
        await runner(blast).run(PUT, "k")


@pytest.mark.parametrize("submitted", ["<html>RID = \nRTOE = \n</html>", "", "RID = a b c"])
async def test_an_empty_rid_is_an_error(submitted: str) -> None:
    """NCBI answers some queries with an empty RID; that is a failure, not a search."""
    blast = Blast(StepClock(100.0))
    blast.submitted = submitted

    with pytest.raises(NcbiError, match="no request id", check=BLAST_FAILED.is_of):
        await runner(blast).run(PUT, "k")


async def test_a_web_page_is_asked_for_once_more_in_the_other_format() -> None:
    """A result page in HTML leads to one more request; XML is then taken."""
    blast = Blast(StepClock(100.0))
    blast.results = lambda params: "<?xml version='1.0'?><BlastOutput/>" if params["FORMAT_TYPE"] == "XML" else WEB_PAGE

    reply = await runner(blast).run(PUT, "k")

    assert reply.body.startswith("<?xml") and blast.kinds == ["put", "SearchInfo", "Text", "XML"]


async def test_only_web_pages_are_an_error() -> None:
    """Two web pages and the call ends, typed."""
    blast = Blast(StepClock(100.0))
    blast.results = lambda _: WEB_PAGE

    with pytest.raises(NcbiError, match="web page", check=NCBI_MALFORMED.is_of):
        await runner(blast).run(PUT, "k")


async def test_a_result_page_that_still_waits_is_waited_for() -> None:
    """READY from SearchInfo and WAITING from the result itself: the result is asked for again, a minute later."""
    blast = Blast(StepClock(100.0))
    pages = iter(["<!--\nQBlastInfoBegin\n\tStatus=WAITING\nQBlastInfoEnd\n-->", RESULT])
    blast.results = lambda _: next(pages)

    assert (await runner(blast).run(PUT, "k")).body == RESULT
    assert blast.sent[-1][0] - blast.sent[2][0] >= 60


async def test_a_status_page_without_status_is_malformed() -> None:
    """A page that says nothing is not taken for WAITING for ever."""
    blast = Blast(StepClock(100.0), status="")

    with pytest.raises(NcbiError, match="no status", check=NCBI_MALFORMED.is_of):
        await runner(blast).run(PUT, "k")


async def test_a_written_get_waits_and_fetches() -> None:
    """A Get with a RID looks before it fetches; its format and size are ours, so that the result can be read."""
    blast = Blast(StepClock(100.0), looks=1)
    asked: list[Mapping[str, str]] = []

    def result(params: Mapping[str, str]) -> str:
        asked.append(params)
        return RESULT

    blast.results = result
    call = NcbiCall("blast_get", "", {"RID": "52V2HPJ2013", "FORMAT_TYPE": "HTML", "HITLIST_SIZE": "3"})
    await runner(blast).run(call, "k")

    assert blast.kinds == ["SearchInfo", "SearchInfo", "Text"]
    assert asked == [{"RID": "52V2HPJ2013", "FORMAT_TYPE": "Text", "HITLIST_SIZE": "3"}]


async def test_callers_of_one_rid_share_its_pace() -> None:
    """Two calls that wait for one RID do not look twice as often."""
    blast = Blast(StepClock(100.0), looks=3)
    blasts = runner(blast)
    get = NcbiCall("blast_get", "", {"RID": "52V2HPJ2013"})
    await asyncio.gather(blasts.run(get, "a"), blasts.run(get, "b"))
    looks = [at for at, kind in blast.sent if kind == "SearchInfo"]

    assert all(later - earlier >= 60 for earlier, later in itertools.pairwise(looks))
