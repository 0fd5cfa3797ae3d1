"""Records of where calls can go. Data only; built in ``ncbi_places``, chosen from in ``egress``."""

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
    """Where calls can go. ``name``: "gateway" or the host. ``leaves``: it is another machine."""

    name: str
    client: NcbiClient
    leaves: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """E-utilities and BLAST may be in different places."""

    eutils: Place
    blast: Place

    def of(self, call: NcbiCall) -> Place:
        return self.blast if call.endpoint.startswith("blast_") else self.eutils

    @property
    def site(self) -> NcbiSite:
        return replace(self.eutils.client.site, blast_url=self.blast.client.site.blast_url)


@dataclass(frozen=True, slots=True)
class Places:
    """``off``: for mode off. ``gateway``: asked first with local-first. ``outside``: NCBI or what stands for it."""

    off: Pair
    gateway: Pair
    outside: Pair

    def first(self, mode: EgressMode) -> Pair:
        return {"off": self.off, "local-first": self.gateway, "ncbi": self.outside}[mode]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundRequest:
    """A request to another machine that is no NCBI call. ``params``: the values of it that say something."""

    host: str
    endpoint: str
    classes: tuple[ParamClass, ...]
    num_bytes: int
    params: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundReply:
    """What became of one. ``status``: HTTP's, else what kept the reply away. ``num_bytes`` None where none came."""

    status: str
    num_bytes: int | None
    seconds: float
