"""Describe the destinations of calls.

Data only; built in ``ncbi_places``, chosen from in ``egress``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from retrieval.ncbi.calls.parameter_classes import ParamClass
from retrieval.ncbi.calls.urls import NcbiSite
from retrieval.ncbi.client.client import NcbiClient
from retrieval.types import NcbiCall
from server.audit.entry import AuditRecord
from server.types import EgressMode


@dataclass(frozen=True, slots=True)
class Destination:
    """Describe one destination of calls.

    ``name`` is "gateway" or the host; ``leaves`` is whether it is another machine.
    """

    name: str
    client: NcbiClient
    leaves: bool


@dataclass(frozen=True, slots=True)
class DestinationPair:
    """Pair the destinations of E-utilities and BLAST, which may differ."""

    eutils: Destination
    blast: Destination

    def of(self, call: NcbiCall) -> Destination:
        return self.blast if call.endpoint.startswith("blast_") else self.eutils

    @property
    def site(self) -> NcbiSite:
        return replace(self.eutils.client.site, blast_url=self.blast.client.site.blast_url)


@dataclass(frozen=True, slots=True)
class Destinations:
    """Hold the destinations of every egress mode.

    ``off`` serves mode off; ``gateway`` is tried first with local-first; ``outside`` is NCBI or its substitute.
    """

    off: DestinationPair
    gateway: DestinationPair
    outside: DestinationPair

    def first(self, mode: EgressMode) -> DestinationPair:
        return {"off": self.off, "local-first": self.gateway, "ncbi": self.outside}[mode]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundRequest:
    """Describe a request to another machine that is no NCBI call.

    ``params`` holds those of its values that carry information.
    """

    host: str
    endpoint: str
    classes: tuple[ParamClass, ...]
    num_bytes: int
    params: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundReply:
    """Describe the outcome of an outbound request.

    ``status`` is HTTP's, or else the reason why no reply came; ``num_bytes`` is None without a reply.
    """

    status: str
    num_bytes: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class EgressContext:
    """Identify the request behind a call, with the egress mode in force.

    ``key_id`` is "" on a server without keys.
    """

    request_id: str
    key_id: str
    mode: EgressMode


def request_entry(egress_context: EgressContext, request: OutboundRequest) -> AuditRecord:
    """Return the record to write right before the request is sent."""
    return AuditRecord(
        event="send",
        request_id=egress_context.request_id,
        key_id=egress_context.key_id or None,
        mode=egress_context.mode,
        decision="allowed",
        where=request.host,
        endpoint=request.endpoint,
        classes=request.classes,
        request_bytes=request.num_bytes,
        params=request.params,
    )


def reply_entry(egress_context: EgressContext, request: OutboundRequest, reply: InboundReply) -> AuditRecord:
    """Return the record to write right after the request ended; it has nothing of the reply's content."""
    return replace(
        request_entry(egress_context, request),
        event="reply",
        request_bytes=None,
        status=reply.status,
        reply_bytes=reply.num_bytes,
        detail={"seconds": round(reply.seconds, 3)},
    )
