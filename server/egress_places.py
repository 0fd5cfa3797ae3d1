"""Describe the destinations of calls.

Data only; built in ``ncbi_places``, chosen from in ``egress``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from retrieval.ncbi.client import NcbiClient
from retrieval.ncbi.parameter_classes import ParamClass
from retrieval.ncbi.requests import NcbiSite
from retrieval.types import NcbiCall
from server.egress_settings import EgressMode


@dataclass(frozen=True, slots=True)
class Place:
    """Describe one destination of calls.

    ``name`` is "gateway" or the host; ``leaves`` is whether it is another machine.
    """

    name: str
    client: NcbiClient
    leaves: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """Pair the destinations of E-utilities and BLAST, which may differ."""

    eutils: Place
    blast: Place

    def of(self, call: NcbiCall) -> Place:
        return self.blast if call.endpoint.startswith("blast_") else self.eutils

    @property
    def site(self) -> NcbiSite:
        return replace(self.eutils.client.site, blast_url=self.blast.client.site.blast_url)


@dataclass(frozen=True, slots=True)
class Places:
    """Hold the destinations of every egress mode.

    ``off`` serves mode off; ``gateway`` is tried first with local-first; ``outside`` is NCBI or its substitute.
    """

    off: Pair
    gateway: Pair
    outside: Pair

    def first(self, mode: EgressMode) -> Pair:
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
