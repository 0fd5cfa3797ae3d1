"""Opens the sessions of answers: each with its mode, and with what its question says about the replies it needs.

Where calls may go is ``server.egress``'s matter. Knows nothing of what a call or a reply says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from retrieval.ncbi.neutralise import neutralise
from retrieval.ncbi.organisms import organism_in
from retrieval.ncbi.requests import NcbiSite
from retrieval.ncbi.session import Fetcher, NcbiSession, SessionReply
from retrieval.observing import Parts, Unobserved
from retrieval.types import Focus, NcbiCall, RawReply
from server.egress import Egress
from server.methods import genegpt
from server.methods.base import Ask
from server.methods.genegpt_options import GeneGptOptions

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


class _Remembering:
    """Passes calls on and keeps the last body."""

    def __init__(self, calls: Fetcher) -> None:
        self._calls = calls
        self.body = ""

    @property
    def site(self) -> NcbiSite:
        return self._calls.site

    async def fetch(self, call: NcbiCall) -> RawReply:
        reply = await self._calls.fetch(call)
        self.body = reply.body
        return reply


class UncondensedSession:
    """Like the usual session, but a good reply goes in as it came; the loop cuts it to its budget."""

    def __init__(self, calls: Fetcher) -> None:
        self._fetcher = _Remembering(calls)
        self._session = NcbiSession(self._fetcher)

    async def __call__(self, url_text: str) -> SessionReply:
        reply = await self._session(url_text)
        if reply.status not in ("ok", "empty"):
            return reply
        return replace(reply, text=f"[{neutralise(self._fetcher.body.strip())}]")


class ObservedSession:
    """A ``Session``. Of a call and its reply nothing is told but what the record counts and names: no value of its
    address."""

    def __init__(self, inner: genegpt.Session, parts: Parts) -> None:
        self._inner = inner
        self._parts = parts

    async def __call__(self, url_text: str) -> genegpt.SessionReply:
        with self._parts.part("call") as part:
            reply = await self._inner(url_text)
            record = reply.record
            part.tell(
                tool=record.get("endpoint") or "other",
                status=reply.status,
                remote=bool((record.get("egress") or {}).get("left")),
                from_cache=bool(record.get("from_cache")),
                attempts=record.get("attempts") or 0,
                found=record.get("num_records") or 0,
            )
            if reply.status in ("error", "refused"):
                part.failed(record.get("error") or reply.status)
        return reply


@dataclass(frozen=True, slots=True)
class NcbiAccess:
    """One per process; ``open`` once per answer. ``max_chars``: length of a condensed reply."""

    egress: Egress
    max_chars: int
    parts: Parts = field(default_factory=Unobserved)

    def check(self, ask: Ask, options: GeneGptOptions) -> None:
        """Raises EgressRaised for a mode above that of the request's key."""
        self.egress.admit(ask.request_id, ask.key_id, options.egress)

    def open(self, ask: Ask, question: str, options: GeneGptOptions) -> genegpt.Session:
        """``question`` as the method puts it. Raises EgressRaised."""
        calls = self.egress.calls_of(self.egress.admit(ask.request_id, ask.key_id, options.egress))
        organism = options.organism or organism_in(question) or "human"
        if not options.condense:
            return ObservedSession(UncondensedSession(calls), self.parts)
        summary = "none" if asks_for_a_field(question) else options.summaries
        about = Focus(organism=organism, summary=summary, places=asks_for_places(question))
        return ObservedSession(NcbiSession(calls, about=about, max_chars=self.max_chars), self.parts)
