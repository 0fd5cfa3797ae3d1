"""Decides where calls go and opens the sessions of answers: NCBI, a service on this machine, or the built-in gateway.

The rule: with egress off nothing but this machine is asked. E-utilities and BLAST may go to different places, so there
is one client for each place. Knows nothing of what a call or a reply says.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from retrieval.gateway.app import create_gateway_app, open_store
from retrieval.gateway.blast_engine import BlastOptions
from retrieval.gateway.blast_process import RunLimits
from retrieval.ncbi.blast import BlastTiming
from retrieval.ncbi.cache import ReplyCache
from retrieval.ncbi.client import ClientConfig, NcbiClient, RetryPolicy
from retrieval.ncbi.neutralise import neutralise
from retrieval.ncbi.organisms import organism_in
from retrieval.ncbi.requests import NcbiSite
from retrieval.ncbi.session import NcbiSession, SessionReply
from retrieval.ncbi.transport import AsgiApp, SendLimits
from retrieval.types import Focus, NcbiCall, RawReply
from server.methods.genegpt import Session
from server.methods.genegpt_options import GeneGptOptions
from server.settings import Settings, is_loopback
from server.settings_loading import xdg_dir

_NCBI = NcbiSite()
# Where the built-in gateway stands in replies' records. No such host exists, and nothing looks it up.
_GATEWAY = NcbiSite(
    eutils_url="http://gateway.invalid/entrez/eutils", blast_url="http://gateway.invalid/blast/Blast.cgi"
)
# A call ends a little before the loop gives it up, so that the error says what happened at NCBI.
_GRACE = 0.95


_FIELD = re.compile(
    r"\b(symbol|alias(es)?|called|known as|chromosomes?|located?|locations?|where|convert|ensembl|identifier|"
    r"protein-coding|codes? for|encode|organism|species)\b",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\b(where|located?|locations?|chromosom\w*|loci|locus|align)\b", re.IGNORECASE)
_PROSE = re.compile(r"\b(function|role|summar|describe|explain|why|how|disease|related|pathway)", re.IGNORECASE)


def asks_for_a_field(question: str) -> bool:
    """Whether a name, a place or a type answers the question, so that prose would only stand in the way."""
    return bool(_FIELD.search(question)) and not _PROSE.search(question)


def asks_for_places(question: str) -> bool:
    """Whether map locations answer the question."""
    return bool(_PLACE.search(question))


class _Router:
    """Sends E-utilities calls to one client and BLAST calls to another."""

    def __init__(self, eutils: NcbiClient, blast: NcbiClient) -> None:
        self._eutils = eutils
        self._blast = blast
        self._site = replace(eutils.site, blast_url=blast.site.blast_url)

    @property
    def site(self) -> NcbiSite:
        return self._site

    async def fetch(self, call: NcbiCall) -> RawReply:
        client = self._blast if call.endpoint.startswith("blast_") else self._eutils
        return await client.fetch(call)


class _Remembering:
    """Passes calls on and keeps the last body."""

    def __init__(self, router: _Router) -> None:
        self._router = router
        self.body = ""

    @property
    def site(self) -> NcbiSite:
        return self._router.site

    async def fetch(self, call: NcbiCall) -> RawReply:
        reply = await self._router.fetch(call)
        self.body = reply.body
        return reply


class UncondensedSession:
    """Like the usual session, but a good reply goes in as it came; the loop cuts it to its budget."""

    def __init__(self, router: _Router) -> None:
        self._fetcher = _Remembering(router)
        self._session = NcbiSession(self._fetcher)

    async def __call__(self, url_text: str) -> SessionReply:
        reply = await self._session(url_text)
        if reply.status not in ("ok", "empty"):
            return reply
        return replace(reply, text=f"[{neutralise(self._fetcher.body.strip())}]")


@dataclass(frozen=True, slots=True)
class NcbiAccess:
    """Open one per process; ``open_session`` once per answer."""

    router: _Router
    max_chars: int
    closers: tuple[Callable[[], Awaitable[None]], ...]

    @classmethod
    def open(cls, settings: Settings, gateway_dir: Path) -> NcbiAccess:
        """Build the clients. The gateway's store is made here where it is needed and missing.

        Raises:
            GatewayDataError: that cannot be done.
        """
        places = _places(settings)
        app = create_gateway_app(open_store(gateway_dir), blast_options(settings)) if None in places else None
        clients = {place: _client(settings, place, app) for place in dict.fromkeys(places)}
        router = _Router(clients[places[0]], clients[places[1]])
        return cls(router, settings.ncbi.max_reply_chars, tuple(client.aclose for client in clients.values()))

    def open_session(self, question: str, options: GeneGptOptions) -> Session:
        organism = options.organism or organism_in(question) or "human"
        if not options.condense:
            return UncondensedSession(self.router)
        summary = "none" if asks_for_a_field(question) else options.summaries
        about = Focus(organism=organism, summary=summary, places=asks_for_places(question))
        return NcbiSession(self.router, about=about, max_chars=self.max_chars)

    async def close(self) -> None:
        for closer in self.closers:
            await closer()


def blast_options(settings: Settings) -> BlastOptions:
    gateway = settings.gateway
    return BlastOptions(
        workers=gateway.blast_workers,
        threads=gateway.blast_threads,
        limits=RunLimits(wall_s=gateway.blast_timeout_s, cpu_s=gateway.blast_cpu_s),
        blastdb_dirs=gateway.blastdb_dirs,
    )


def _places(settings: Settings) -> tuple[str | None, str | None]:
    """Host of the E-utilities and of BLAST; None is the built-in gateway."""
    off = settings.egress.mode == "off"
    defaults = (None, None) if off else (_NCBI.eutils_url, _NCBI.blast_url)
    urls = [given or default for given, default in zip(settings.ncbi_urls, defaults, strict=True)]
    return _place(urls[0]), _place(urls[1])


def _place(url: str | None) -> str | None:
    """NCBI's two hosts are one place: they share the limit on requests."""
    if url is None:
        return None
    host = urlsplit(url).netloc
    return "ncbi" if host.endswith(".ncbi.nlm.nih.gov") else host


def _client(settings: Settings, place: str | None, app: AsgiApp | None) -> NcbiClient:
    ncbi = settings.ncbi
    local = place is None or is_loopback(urlsplit(f"//{place}").hostname or "")
    key = ncbi.api_key.get_secret_value() if ncbi.api_key and not local else ""
    base = _GATEWAY if place is None else _NCBI
    site = NcbiSite(
        eutils_url=(place and ncbi.eutils_url) or base.eutils_url,
        blast_url=(place and ncbi.blast_url) or base.blast_url,
        tool=ncbi.tool,
        email=ncbi.email,
        api_key=key,
    )
    config = ClientConfig(
        site=site,
        allow_remote=settings.egress.mode == "ncbi",
        rate_per_s=ncbi.rate_per_s if ncbi.rate_per_s is not None else (0.0 if local else None),
        limits=SendLimits(
            connect_timeout_s=ncbi.connect_timeout_s, timeout_s=ncbi.timeout_s, max_reply_bytes=ncbi.max_reply_bytes
        ),
        retry=RetryPolicy(
            retries=ncbi.retries,
            total_timeout_s=min(settings.loop.call_timeout_s * _GRACE, ncbi.total_timeout_s),
        ),
        blast=_blast_timing(settings, local=local),
    )
    cached = ncbi.cache if ncbi.cache is not None else not local
    cache = ReplyCache(ncbi.cache_path or xdg_dir("cache") / "ncbi.sqlite") if cached else None
    return NcbiClient(config, cache=cache, app=app if place is None else None)


def _blast_timing(settings: Settings, *, local: bool) -> BlastTiming:
    timing = BlastTiming.local() if local else BlastTiming()
    ncbi = settings.ncbi
    put = timing.put_interval_s if ncbi.blast_put_interval_s is None else ncbi.blast_put_interval_s
    poll = timing.poll_interval_s if ncbi.blast_poll_interval_s is None else ncbi.blast_poll_interval_s
    total = settings.loop.call_timeout_s * _GRACE
    return replace(timing, put_interval_s=put, poll_interval_s=poll, total_timeout_s=total)
