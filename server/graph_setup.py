"""Assemble graphs, their encoder and SPOKE from the settings.

Builds and loads nothing before it is needed.
"""

from __future__ import annotations

from pathlib import Path

from models.encoders.base import Encoder
from models.encoders.options import EncoderOptions
from models.encoders.registry import create_encoder
from retrieval.graph.spoke import BeforeSend, SpokeOptions, SpokeSource
from retrieval.ncbi.transport import HttpSender, SendLimits
from server.settings import Settings
from server.settings_loading import xdg_dir


def graphs_dir(settings: Settings) -> Path:
    return settings.graph.data_dir or xdg_dir("data") / "graphs"


def graph_encoder_name(settings: Settings) -> str:
    return settings.graph.encoder or settings.retrieval.encoder


def load_graph_encoder(settings: Settings, name: str = "") -> Encoder:
    """Load the encoder of the graph.

    Raises:
        ModelError: it cannot be loaded.
    """
    of = settings.retrieval
    options = EncoderOptions(
        device=of.device, dtype=of.dtype, batch_tokens=of.batch_tokens, allow_download=of.allow_download
    )
    return create_encoder(name or graph_encoder_name(settings), options)


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
