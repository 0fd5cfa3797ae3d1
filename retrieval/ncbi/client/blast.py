"""Run a BLAST search as one step: submit, wait, poll its status, fetch the result.

Follows NCBI's BLAST rules: a pause between submissions, the first poll after the estimated time (RTOE), then at most
one poll a minute per request id (RID). Reads the URL API's status pages, not the contents of a result.
"""

from __future__ import annotations

import html
import re
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final, Literal

from retrieval.errors import BLAST_FAILED, NCBI_MALFORMED, NCBI_TIMEOUT, NcbiError
from retrieval.ncbi.client.transport import Clock
from retrieval.types import FetchCall, NcbiCall, RawReply

_RID: Final = re.compile(r"^\s*RID = ([A-Za-z0-9_-]+)\s*$", re.MULTILINE)
_RTOE: Final = re.compile(r"^\s*RTOE = ([0-9]{1,5})\s*$", re.MULTILINE)
_STATUS: Final = re.compile(r"Status=([A-Z]+)")
_PROBLEM: Final = re.compile(r"Message ID#[0-9]+\s+Error:([^<\n]{1,200})|class=\"error\"[^>]*>([^<]{1,200})")
_RESULT: Final = re.compile(
    r"\A\s*<\?xml|<BlastOutput|^T?BLAST[NPX] |Sequences producing significant alignments"
    r"|No significant similarity found",
    re.MULTILINE,
)
# A READY result starts with its status block; the words Status=WAITING far inside a result are not a status.
_HEAD_CHARS: Final = 20_000
_MAX_REMEMBERED: Final = 2000

FormatType = Literal["Text", "XML"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlastTiming:
    """Hold pauses in seconds; the defaults are NCBI's rules, ``local()`` is for a gateway on this machine."""

    put_interval_s: float = 10.0
    poll_interval_s: float = 60.0
    max_first_wait_s: float = 300.0
    total_timeout_s: float = 900.0
    rid_lifetime_s: float = 24 * 3600.0
    format_type: FormatType = "Text"

    @classmethod
    def local(cls) -> BlastTiming:
        return cls(put_interval_s=0.0, poll_interval_s=0.2, max_first_wait_s=0.0, total_timeout_s=120.0)


@dataclass(slots=True)
class _Search:
    """Track a submitted search; ``next_poll_at`` is the earliest time of the next request with its RID."""

    rid: str
    submitted_at: float
    next_poll_at: float


class BlastRunner:
    """Run searches through ``send``, which makes one checked request and spaces submissions.

    RIDs are remembered: a repeated search, also after its first caller gave up, is not submitted twice.
    """

    def __init__(self, send: FetchCall, timing: BlastTiming, clock: Clock) -> None:
        self._send = send
        self._timing = timing
        self._clock = clock
        self._by_query: OrderedDict[str, _Search] = OrderedDict()
        self._by_rid: OrderedDict[str, _Search] = OrderedDict()

    async def run(self, call: NcbiCall, key: str) -> RawReply:
        """Return the result of a Put or of a Get; ``key`` identifies the search: equal keys share a RID.

        Raises:
            BLAST_FAILED: not accepted, failed, or its RID is unknown.
            NCBI_TIMEOUT: not ready within the total time; the search continues at NCBI and can be requested again.
        """
        deadline = self._clock.now() + self._timing.total_timeout_s
        if call.endpoint == "blast_get":
            return await self._result(self._known(call.params["RID"]), call, deadline)
        if previous_search := self._find_search(key):
            try:
                return await self._result(previous_search, call, deadline)
            except NcbiError as error:
                if not BLAST_FAILED.is_of(error):  # its result has expired: submit again
                    raise
        search = await self._submit(call)
        _remember(self._by_query, key, search)
        try:
            return await self._result(search, call, deadline)
        except NcbiError as error:
            if BLAST_FAILED.is_of(error):
                self._by_query.pop(key, None)
            raise

    def _find_search(self, key: str) -> _Search | None:
        search = self._by_query.get(key)
        if search is None or self._clock.now() - search.submitted_at > self._timing.rid_lifetime_s:
            return None
        return search

    def _known(self, rid: str) -> _Search:
        search = self._by_rid.get(rid)
        if search is None:
            search = _Search(rid, self._clock.now(), self._clock.now())
            _remember(self._by_rid, rid, search)
        return search

    async def _submit(self, call: NcbiCall) -> _Search:
        page = await self._send(call)
        rid = _RID.search(page.body)
        if rid is None:
            problem = _PROBLEM.search(page.body)
            reason = html.unescape((problem[1] or problem[2]).strip()) if problem else "no request id came back"
            raise NcbiError(f"BLAST did not accept the search: {reason}", BLAST_FAILED, attempts=page.attempts)
        rtoe = _RTOE.search(page.body)
        now = self._clock.now()
        wait = min(float(rtoe[1]) if rtoe else 0.0, self._timing.max_first_wait_s)
        search = _Search(rid[1], now, now + wait)
        _remember(self._by_rid, search.rid, search)
        return search

    async def _result(self, search: _Search, call: NcbiCall, deadline: float) -> RawReply:
        attempts = 1
        while True:
            await self._wait_for_poll(search, deadline)
            page = await self._send(NcbiCall("blast_get", "", {"RID": search.rid, "FORMAT_OBJECT": "SearchInfo"}))
            attempts += 1
            if _is_ready(page.body):
                result = await self._fetch(search, call)
                if result is not None:
                    rid = search.rid if call.endpoint == "blast_put" else ""
                    return replace(result, attempts=attempts + result.attempts, rid=rid)

    async def _wait_for_poll(self, search: _Search, deadline: float) -> None:
        """Sleep until the RID may be polled again; several callers of one RID take turns.

        Raises:
            NCBI_TIMEOUT: the next poll is after the deadline.
        """
        while (wait := search.next_poll_at - self._clock.now()) > 0:
            if search.next_poll_at > deadline:
                break
            await self._clock.sleep(wait)
        if max(search.next_poll_at, self._clock.now()) > deadline:
            raise NcbiError(f"BLAST was not ready after {self._timing.total_timeout_s:g} s", NCBI_TIMEOUT)
        # Even a local gateway is not polled without a pause.
        search.next_poll_at = self._clock.now() + max(self._timing.poll_interval_s, 0.02)

    async def _fetch(self, search: _Search, call: NcbiCall) -> RawReply | None:
        """Fetch the result, or return None if the page contradicts the preceding status and is not ready.

        If NCBI sends a web page in place of the result, the other format is requested once.
        """
        formats: tuple[FormatType, FormatType] = ("Text", "XML")
        if self._timing.format_type == "XML":
            formats = ("XML", "Text")
        for format_type in formats:
            params = {"RID": search.rid, "FORMAT_TYPE": format_type}
            params |= {n: v for n, v in call.params.items() if n in ("HITLIST_SIZE", "DESCRIPTIONS", "ALIGNMENTS")}
            reply = await self._send(NcbiCall("blast_get", "", params))
            if _RESULT.search(reply.body):
                return reply
            if not _is_ready(reply.body, default="READY"):
                return None
        raise NcbiError("BLAST sent a web page in place of the result", NCBI_MALFORMED)


def _is_ready(page: str, *, default: str = "") -> bool:
    """Return whether the status page says that the result is ready.

    Raises:
        BLAST_FAILED: the search will never be ready.
        NCBI_MALFORMED: the page has no status.
    """
    status = _STATUS.search(page[:_HEAD_CHARS])
    word = status[1] if status else default
    if word == "READY":
        return True
    if word == "WAITING":
        return False
    if word == "UNKNOWN":
        raise NcbiError("BLAST does not know this request id, or its result has expired", BLAST_FAILED)
    if word in ("FAILED", "ERROR"):
        raise NcbiError("the BLAST search failed", BLAST_FAILED)
    raise NcbiError("BLAST sent no status", NCBI_MALFORMED)


def _remember(searches: OrderedDict[str, _Search], key: str, search: _Search) -> None:
    searches[key] = search
    searches.move_to_end(key)
    while len(searches) > _MAX_REMEMBERED:
        searches.popitem(last=False)
