"""Open the NCBI session of each answer.

A session has the egress mode of the request and the needs of its question. ``server.egress.router`` decides where calls
may go. This module does not interpret calls or replies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from models.card import Summaries
from models.decoding.types import CallHandler
from retrieval.errors import NcbiError
from retrieval.ncbi.calls.parameter_classes import organism_in
from retrieval.ncbi.session import NcbiSession
from retrieval.observer import NullObserver, Tracer
from retrieval.types import FetchCall, Focus, RawReply
from server.egress.policy import EgressContext
from server.egress.router import Egress
from server.methods.base import AnswerRequest
from server.methods.genegpt.method import GeneGptOptions
from server.tape import taped, taped_now
from server.types import EgressMode

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


def through_tape(fetch: FetchCall, where: str) -> FetchCall:
    """Return ``fetch`` as a look-up that is recorded; ``where`` tells routes of the same call apart."""
    return taped("ncbi", RawReply, lambda call: (where, call), NcbiError)(fetch)


def admitted(egress: Egress, ask: AnswerRequest, requested: EgressMode | None) -> EgressContext:
    """Return the request's identity with its mode; a replay has the recorded mode, as nothing leaves for it.

    Raises:
        EgressRaised: the requested mode permits more than that of the request's key.
    """
    admit = taped_now("mode", EgressContext, lambda *given: given[2], NcbiError)(egress.admit)
    return admit(ask.request_id, ask.key_id, requested)


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

    def single(self, request_id: str, key_id: str) -> CallHandler:
        """Open a session for a call that no answer makes, with the egress mode of the key."""
        context = self.egress.admit(request_id, key_id, None)
        fetch, site = self.egress.fetch_for(context), self.egress.site_of(context.mode)
        return NcbiSession(fetch, site, max_chars=self.max_chars, tracer=self.parts)

    def open(self, ask: AnswerRequest, question: str, options: GeneGptOptions, summaries: Summaries) -> CallHandler:
        """Open the session of one answer.

        ``question``: in the wording of the method.

        Raises:
            EgressRaised: the requested mode permits more than that of the request's key.
        """
        context = admitted(self.egress, ask, options.egress)
        fetch, site = through_tape(self.egress.fetch_for(context), context.mode), self.egress.site_of(context.mode)
        organism = organism_in(question) or "human"
        summary = "none" if asks_for_a_field(question) else summaries
        about = Focus(organism=organism, summary=summary, places=asks_for_places(question))
        return NcbiSession(fetch, site, about=about, max_chars=self.max_chars, tracer=self.parts)
