"""Fetch checked calls from NCBI, or from a substitute server: cache, rate limiter, retries, typed errors.

This is the only way out to NCBI. Logs hold endpoint, database, status, time and size, never a term or a key. Knows
nothing of models and of the contents of replies.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

from models.errors import kind_of
from retrieval.errors import (
    EGRESS_REFUSED,
    NCBI_BLOCKED,
    NCBI_MALFORMED,
    NCBI_REPLY_ERROR,
    NCBI_THROTTLED,
    NCBI_TIMEOUT,
    NCBI_UNAVAILABLE,
    NcbiError,
)
from retrieval.ncbi.calls.urls import NcbiSite, build_request, cache_key, is_loopback_url, public_url, sent_params
from retrieval.ncbi.client.blast import BlastRunner, BlastTiming
from retrieval.ncbi.client.cache import ReplyCache
from retrieval.ncbi.client.transport import (
    Clock,
    HttpSender,
    RateLimiter,
    SendLimits,
    SystemClock,
    interval_for,
    ncbi_rate,
)
from retrieval.observer import NullObserver, RetrievalObserver
from retrieval.types import Caller, Endpoint, NcbiCall, RawReply

_HTML: Final = re.compile(r"\s*(<\?xml[^>]*>\s*)?<(!doctype html|html)\b", re.IGNORECASE)
# Matched only as an error: an abstract may contain the same words.
_AS_ERROR: Final = r"""("error"\s*:\s*"|<ERROR>)[^"<]{0,200}"""
_THROTTLED: Final = re.compile(_AS_ERROR + "rate limit exceeded", re.IGNORECASE)
_BAD_KEY: Final = re.compile(r"api[ _-]?key[^\"<]{0,20}(invalid|not|wrong|malformed|unknown|expired)", re.IGNORECASE)
_TRANSIENT: Final = re.compile(
    r"Search Backend failed|NCBI C\+\+ Exception|WWW Error 5\d\d|"
    + _AS_ERROR
    + "(temporarily unavailable|unable to connect|timed ?out|busy)",
    re.IGNORECASE,
)
# Pages for people: the challenge before a page, the notice to a blocked address.
_FOR_PEOPLE: Final = re.compile(
    r"captcha|Error Blocked Diagnostic|possible (?:misuse|abuse)|misuse\.ncbi\.nlm\.nih\.gov", re.IGNORECASE
)
_PAGE_CHARS: Final = 100_000
_XML_ROOT: Final = re.compile(r"<(e[A-Z]\w*Result)\b")
# Error texts are short.
_MAX_ERROR_CHARS: Final = 4000
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
MAX_AGE_S: Final[dict[Endpoint, float]] = {
    "esearch": 1 * _DAY,
    "esummary": 7 * _DAY,
    "efetch": 7 * _DAY,
    "elink": 7 * _DAY,
    "einfo": 1 * _DAY,
    "espell": 7 * _DAY,
    "blast_put": 7 * _DAY,
    "blast_get": 1 * _DAY,  # a RID lives for about 36 hours
}
NEGATIVE_MAX_AGE_S: Final = 1 * _HOUR
_NEGATIVE: Final = re.compile(
    r'"count"\s*:\s*"?0"?\s*[,}]|<Count>0</Count>|"error"\s*:|<error>|No significant similarity found', re.IGNORECASE
)


def check_status(status: int, body: str) -> None:
    """Raise the error that an HTTP status stands for.

    Raises:
        NCBI_BLOCKED: the body is a page for people; permanent.
        NCBI_THROTTLED: 429, or an error text that reports the rate limit; retryable.
        NCBI_UNAVAILABLE: 500 and above, or an error text that reports a failed service; retryable.
        NCBI_REPLY_ERROR: other errors and redirects; permanent.
    """
    check_for_people(body)
    if status == 429:
        raise NcbiError("NCBI refuses more requests for now (429)", NCBI_THROTTLED)
    if status >= 500:
        raise NcbiError(f"NCBI is in trouble (HTTP {status})", NCBI_UNAVAILABLE)
    if 300 <= status < 400:
        raise NcbiError("NCBI answered with a redirect; redirects are not followed", NCBI_REPLY_ERROR)
    if status >= 400:
        _check_error_text(body)
        raise NcbiError(f"NCBI refuses the request (HTTP {status}): {_message(body)}", NCBI_REPLY_ERROR)


def check_for_people(body: str) -> None:
    """Raise for a page that asks for a person, or tells one that the address is blocked.

    Raises:
        NCBI_BLOCKED: the body is such a page, not one of BLAST's own.
    """
    page = body[:_PAGE_CHARS]
    if _HTML.match(page) and "QBlastInfoBegin" not in page and _FOR_PEOPLE.search(page):
        raise NcbiError(
            "NCBI shows a page for people (CAPTCHA, or this address is blocked) in place of data", NCBI_BLOCKED
        )


def check_body(call: NcbiCall, body: str) -> None:
    """Raise for a body that a retry may fix, and for a rejected key; ``parsing`` detects everything else.

    Raises:
        NCBI_MALFORMED: empty, a web page, or truncated; retryable.
        NCBI_THROTTLED: NCBI's error text reports the rate limit.
        NCBI_UNAVAILABLE: NCBI's error text reports a failure of its service.
        NCBI_REPLY_ERROR: NCBI rejects the API key.
    """
    if not body.strip():
        raise NcbiError("NCBI sent an empty reply", NCBI_MALFORMED)
    if call.endpoint in ("blast_put", "blast_get"):
        return  # BLAST's pages are HTML; ``blast`` reads them
    if _HTML.match(body):
        raise NcbiError("NCBI sent a web page where data was asked for", NCBI_MALFORMED)
    if len(body) <= _MAX_ERROR_CHARS:
        _check_error_text(body)
    start = body.lstrip()[:1]
    if start == "{" or (sent_params(call).get("retmode") == "json" and call.endpoint != "efetch" and start != "<"):
        _check_json(body)
    root = _XML_ROOT.search(body[:1000])
    if root and not body.rstrip().endswith((f"</{root[1]}>", "/>")):
        raise NcbiError("NCBI's reply is cut off", NCBI_MALFORMED)


def max_age_s(call: NcbiCall, reply: RawReply) -> float:
    """Return how long the reply may be reused; empty results and permanent errors expire sooner.

    0: not at all, as of epost and of calls with a WebEnv, which no later answer names.
    """
    if call.endpoint == "epost" or "WebEnv" in call.params:
        return 0.0
    if _NEGATIVE.search(reply.body[:_MAX_ERROR_CHARS]):
        return NEGATIVE_MAX_AGE_S
    return MAX_AGE_S[call.endpoint]


def _check_error_text(body: str) -> None:
    head = body[:_MAX_ERROR_CHARS]
    if _THROTTLED.search(head):
        raise NcbiError("NCBI refuses more requests for now (rate limit exceeded)", NCBI_THROTTLED)
    if _BAD_KEY.search(head):
        raise NcbiError("NCBI does not accept the configured API key", NCBI_REPLY_ERROR)
    if _TRANSIENT.search(head):
        raise NcbiError("NCBI's search service failed", NCBI_UNAVAILABLE)


def _check_json(body: str) -> None:
    try:
        json.loads(body, strict=False)  # NCBI puts raw newlines into strings
    except json.JSONDecodeError as error:
        raise NcbiError("NCBI's reply is cut off or no JSON", NCBI_MALFORMED) from error


def _message(body: str) -> str:
    text = re.sub(r"<[^>]*>", " ", body[:2000])
    found = re.search(r'"error"\s*:\s*"([^"]+)"', text, re.IGNORECASE)
    return " ".join((found[1] if found else text).split())[:120] or "no reason given"


_log = logging.getLogger(__name__)
_BLAST: Final = ("blast_put", "blast_get")
BeforeSending = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Define retries and time limits.

    ``retries`` follow the first attempt; the n-th pause is drawn from 0 to ``base_s`` * 2**n, at most ``max_s``.
    ``max_retry_after_s`` caps the pause of a Retry-After header. ``total_timeout_s`` limits an E-utilities call with
    its waits and retries (BLAST has its own total time).
    """

    retries: int = 3
    base_s: float = 0.5
    max_s: float = 10.0
    max_retry_after_s: float = 20.0
    total_timeout_s: float = 85.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Configure a client.

    ``rate_per_s``: None is NCBI's rule (3, or 10 with a key), 0 no limit. ``limits`` apply to a sender that the client
    creates itself. ``allow_remote``: False refuses every base URL that is not loopback.
    """

    site: NcbiSite = field(default_factory=NcbiSite)
    allow_remote: bool = False
    rate_per_s: float | None = None
    limits: SendLimits = field(default_factory=SendLimits)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    blast: BlastTiming = field(default_factory=BlastTiming)
    observer: RetrievalObserver = field(default_factory=NullObserver)


@dataclass(slots=True)
class _InFlight:
    """Count the callers that wait for one running call."""

    task: asyncio.Task[RawReply]
    waiters: int = 0


class CallClient(Protocol):
    """Fetch checked calls from one destination, as ``NcbiClient`` does."""

    @property
    def site(self) -> NcbiSite: ...

    async def fetch(
        self, call: NcbiCall, *, before: BeforeSending | None = None, caller: Caller | None = None
    ) -> RawReply:
        """Return the reply to a checked call; ``NcbiClient.fetch`` says what ``before`` is.

        Raises:
            NcbiError: one of its subclasses.
        """
        ...

    async def cached(self, call: NcbiCall) -> RawReply | None: ...

    async def aclose(self) -> None: ...


class NcbiClient:
    """Fetch calls under one rate limit, which all users of the client share: create one client per process.

    Everything runs on one event loop. ``sender`` may be shared with other clients and is then closed by its creator;
    None creates a private one. ``jitter`` returns numbers from 0 to 1.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        cache: ReplyCache | None = None,
        sender: HttpSender | None = None,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.site = config.site
        self._observer = config.observer
        self._config = config
        self._cache = cache
        self._clock = clock or SystemClock()
        self._jitter = jitter
        self._owns_sender = sender is None
        self._sender = sender or HttpSender(config.limits)
        rate = ncbi_rate(has_key=bool(config.site.api_key)) if config.rate_per_s is None else config.rate_per_s
        self._limiter = RateLimiter(interval_for(rate) if rate else 0.0, self._clock)
        self._put_limiter = RateLimiter(config.blast.put_interval_s, self._clock)
        self._blast = BlastRunner(self._send, config.blast, self._clock)
        self._in_flight: dict[str, _InFlight] = {}

    async def fetch(
        self, call: NcbiCall, *, before: BeforeSending | None = None, caller: Caller | None = None
    ) -> RawReply:
        """Return the reply to a checked call: from the cache, from an equal call in flight, or from NCBI.

        A BLAST Put returns the search's result. Status and transport are valid; the body is not judged, except where a
        retry could fix it. ``before`` runs once, right before the first request of this call, and not at all if none is
        made; its exception prevents the request. ``caller`` is not used: NCBI is not told who asks.

        Raises:
            NcbiError: one of its subclasses, with ``url`` (no key, no e-mail) and ``attempts``.
        """
        key = cache_key(call, self.site)
        try:
            self._check_egress(call)
            if (cached := await self.cached(call)) is not None:
                return cached
            return await self._fetch_once(call, key, before)
        except NcbiError as error:
            error.url = error.url or public_url(call, self.site)
            raise

    async def cached(self, call: NcbiCall) -> RawReply | None:
        """Return the cache's reply to a call, None where it has none."""
        if self._cache is None:
            return None
        reply = await self._cache.get(cache_key(call, self.site))
        self._observer.ncbi_cache(hit=reply is not None)
        return reply

    async def aclose(self) -> None:
        if self._owns_sender:
            await self._sender.close()
        if self._cache is not None:
            await self._cache.close()

    def _check_egress(self, call: NcbiCall) -> None:
        """Check the destination by the URL's text alone: a refused call causes not even a DNS lookup.

        Raises:
            EGRESS_REFUSED: calls to NCBI are disabled.
        """
        if self._config.allow_remote or self._sender.in_process or is_loopback_url(self.site.base_of(call)):
            return
        raise NcbiError("calls to NCBI are switched off on this server", EGRESS_REFUSED)

    async def _fetch_once(self, call: NcbiCall, key: str, before: BeforeSending | None) -> RawReply:
        """Return the reply to a new call, or to the equal one in flight, whose error goes to every caller.

        The call runs in a task of its own, so that a caller's cancellation does not cancel it for the others; it is
        cancelled when no caller waits for it any more.
        """
        flight = self._in_flight.get(key)
        if flight is None:
            flight = _InFlight(asyncio.create_task(self._fetch_and_store(call, key, before)))
            self._in_flight[key] = flight
            flight.task.add_done_callback(lambda task: self._on_done(key, task))
        flight.waiters += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1
            if not flight.waiters and not flight.task.done():
                self._forget(key, flight.task)
                flight.task.cancel()

    def _on_done(self, key: str, task: asyncio.Task[RawReply]) -> None:
        self._forget(key, task)
        if not task.cancelled():
            task.exception()  # without callers, asyncio would log an error that was never retrieved

    def _forget(self, key: str, task: asyncio.Task[RawReply]) -> None:
        flight = self._in_flight.get(key)
        if flight is not None and flight.task is task:
            del self._in_flight[key]

    async def _fetch_and_store(self, call: NcbiCall, key: str, before: BeforeSending | None) -> RawReply:
        if before is not None:
            await before()
        if call.endpoint in _BLAST:
            reply = await self._blast.run(call, key)
        else:
            total_s = self._config.retry.total_timeout_s
            try:
                async with asyncio.timeout(total_s):
                    reply = await self._send(call)
            except TimeoutError as error:
                raise NcbiError(f"NCBI gave no answer within {total_s:g} s", NCBI_TIMEOUT) from error
        if self._cache is not None and (max_age := max_age_s(call, reply)):
            await self._cache.put(key, reply, max_age_s=max_age)
        return reply

    async def _send(self, call: NcbiCall) -> RawReply:
        """Send one request with its retries."""
        policy, attempt = self._config.retry, 0
        while True:
            attempt += 1
            try:
                return await self._attempt(call, attempt)
            except NcbiError as error:
                error.attempts = attempt
                if not error.retryable or attempt > policy.retries:
                    raise
                pause = self._jitter() * min(policy.max_s, policy.base_s * 2**attempt)
            await self._clock.sleep(pause)

    async def _attempt(self, call: NcbiCall, attempt: int) -> RawReply:
        await self._take_turn(call)
        started, status, size, failure = time.monotonic(), "-", 0, ""
        try:
            reply = await self._sender.send(build_request(call, self.site))
            status, size = str(reply.status), len(reply.body)
            text = reply.text
            try:
                check_status(reply.status, text)
                check_body(call, text)
            except NcbiError as error:
                if NCBI_THROTTLED.is_of(error):  # the whole process, not only this call
                    self._limiter.delay(self._retry_after_pause(reply.retry_after))
                raise
            return RawReply(reply.status, reply.content_type, text, size, attempts=attempt)
        except NcbiError as error:
            failure = kind_of(error)
            status = f"{status} {failure}"
            raise
        except asyncio.CancelledError:
            failure = "cancelled"
            raise
        finally:
            seconds = time.monotonic() - started
            self._observer.ncbi_request(call.endpoint, failure, seconds)
            _log.info("%s db=%s status=%s ms=%.0f bytes=%d", call.endpoint, call.db, status, seconds * 1000, size)

    async def _take_turn(self, call: NcbiCall) -> None:
        began = time.monotonic()
        if call.endpoint == "blast_put":
            await self._put_limiter.acquire()
        await self._limiter.acquire()
        self._observer.ncbi_waited(time.monotonic() - began)

    def _retry_after_pause(self, header: str) -> float:
        return min(retry_after_s(header, datetime.now(UTC)), self._config.retry.max_retry_after_s)


def retry_after_s(header: str, now: datetime) -> float:
    """Return the seconds of a Retry-After header, a number or a date; 0 if it is missing or invalid."""
    header = header.strip()
    if header.isdecimal():
        return float(header[:9])
    try:
        when = parsedate_to_datetime(header)
    except ValueError:
        return 0.0
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - now).total_seconds())
