"""Open the NCBI session of each answer, with the egress mode of the request and the needs of its question.

``server.egress.router`` decides where calls may go. This module does not interpret calls or replies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from retrieval.ncbi.calls.organisms import organism_in
from retrieval.ncbi.calls.urls import NcbiSite
from retrieval.ncbi.replies.condense import sanitize
from retrieval.ncbi.session import Fetcher, NcbiSession, SessionReply
from retrieval.observer import NullObserver, Tracer
from retrieval.types import Focus, NcbiCall, RawReply
from server.egress.router import Egress
from server.methods.base import AnswerRequest
from server.methods.genegpt import method as genegpt
from server.methods.genegpt.method import GeneGptOptions

_FIELD = re.compile(
    r"\b(symbol|alias(es)?|called|known as|chromosomes?|located?|locations?|where|convert|ensembl|identifier|"
    r"protein-coding|codes? for|encode|organism|species)\b",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\b(where|located?|locations?|chromosom\w*|loci|locus|align)\b", re.IGNORECASE)
_PROSE = re.compile(r"\b(function|role|summar|describe|explain|why|how|disease|related|pathway)", re.IGNORECASE)


def asks_for_a_field(question: str) -> bool:
    """Return whether a name, a location or a type answers the question, so that summaries would only distract."""
    return bool(_FIELD.search(question)) and not _PROSE.search(question)


def asks_for_places(question: str) -> bool:
    """Return whether map locations answer the question."""
    return bool(_PLACE.search(question))


class _RecordingFetcher:
    """Forward calls and keep the body of the last reply."""

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
    """Run calls as ``NcbiSession`` does, but return the whole body of a good reply.

    The loop cuts it to its budget.
    """

    def __init__(self, calls: Fetcher) -> None:
        self._fetcher = _RecordingFetcher(calls)
        self._session = NcbiSession(self._fetcher)

    async def __call__(self, url_text: str) -> SessionReply:
        reply = await self._session(url_text)
        if reply.status not in ("ok", "empty"):
            return reply
        return replace(reply, text=f"[{sanitize(self._fetcher.body.strip())}]")


class InstrumentedSession:
    """Report each call of a session to the observer; implements ``Session``.

    A report holds only what the record counts and names, no value of the URL.
    """

    def __init__(self, inner: genegpt.Session, parts: Tracer) -> None:
        self._inner = inner
        self._parts = parts

    async def __call__(self, url_text: str) -> genegpt.SessionReply:
        with self._parts.part("call") as part:
            reply = await self._inner(url_text)
            record = reply.record
            part.annotate(
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
class NcbiSessions:
    """Open the sessions of answers; one instance per process.

    ``open`` is called once per answer. ``max_chars``: length of a condensed reply.
    """

    egress: Egress
    max_chars: int
    parts: Tracer = field(default_factory=NullObserver)

    def check(self, ask: AnswerRequest, options: GeneGptOptions) -> None:
        """Check the requested egress mode against that of the request's key.

        Raises:
            EgressRaised: the requested mode permits more.
        """
        self.egress.admit(ask.request_id, ask.key_id, options.egress)

    def open(self, ask: AnswerRequest, question: str, options: GeneGptOptions) -> genegpt.Session:
        """Open the session of one answer.

        ``question``: in the wording of the method.

        Raises:
            EgressRaised: the requested mode permits more than that of the request's key.
        """
        calls = self.egress.calls_of(self.egress.admit(ask.request_id, ask.key_id, options.egress))
        organism = options.organism or organism_in(question) or "human"
        if not options.condense:
            return InstrumentedSession(UncondensedSession(calls), self.parts)
        summary = "none" if asks_for_a_field(question) else options.summaries
        about = Focus(organism=organism, summary=summary, places=asks_for_places(question))
        return InstrumentedSession(NcbiSession(calls, about=about, max_chars=self.max_chars), self.parts)
