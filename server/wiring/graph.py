"""Assemble graphs, their encoder and SPOKE from the settings.

Builds and loads nothing before it is needed.
"""

from __future__ import annotations

from models.encoders.base import Encoder
from retrieval.errors import NcbiRefusedByEgress
from retrieval.graph.spoke.source import BeforeSend, OutboundCall, SpokeOptions, SpokeSource
from retrieval.ncbi.client.transport import HttpSender, SendLimits
from retrieval.observer import Tracer
from server.evidence.encoders import EncoderPool, load_encoder
from server.evidence.graph import GraphLocation, GraphService, Spoke
from server.settings.loading import graphs_dir
from server.settings.schema import Settings
from server.settings.server import is_loopback
from server.wiring.ncbi import Ncbi


def graph_encoder_name(settings: Settings) -> str:
    return settings.graph.encoder or settings.retrieval.encoder


def load_graph_encoder(settings: Settings, name: str = "") -> Encoder:
    """Load the encoder of the graph.

    Raises:
        ModelError: it cannot be loaded.
    """
    return load_encoder(settings.retrieval, name or graph_encoder_name(settings))


def build_spoke(settings: Settings, sender: HttpSender, before_send: BeforeSend) -> SpokeSource | None:
    """Return the SPOKE client, None where no address is set.

    ``sender`` is the process's own. ``before_send`` writes the audit line; its exception prevents the request.
    """
    of = settings.graph
    if of.spoke_url is None:
        return None
    options = SpokeOptions(
        url=of.spoke_url,
        types_age_s=of.types_age_s,
        unknown_age_s=of.unknown_age_s,
        retries=of.retries,
        limits=SendLimits(
            connect_timeout_s=of.connect_timeout_s, timeout_s=of.timeout_s, max_reply_bytes=of.max_reply_bytes
        ),
    )
    return SpokeSource(options, sender, before_send)


def build_graph_service(settings: Settings, pool: EncoderPool, ncbi: Ncbi, parts: Tracer | None = None) -> GraphService:
    """Build the graph service from the settings.

    Raises:
        EncoderUnknown: the settings do not name the graph's encoder.
    """
    encoder = graph_encoder_name(settings)
    pool.check(encoder)
    place = GraphLocation(graphs_dir(settings), settings.graph.name, encoder, settings.graph.vector_cache_bytes)
    spoke = build_spoke(settings, ncbi.sender, _not_for_an_answer)
    host = settings.graph.spoke_host or ""
    source = None if spoke is None else Spoke(spoke, host, is_loopback(host))
    return GraphService(place, pool, ncbi.egress, source, parts)


async def _not_for_an_answer(_: OutboundCall) -> None:
    raise NcbiRefusedByEgress("SPOKE is only asked for an answer")
