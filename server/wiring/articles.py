"""Assemble the search of the gateway's articles by vectors.

Apart from ``retrieval``, so that commands on namespaces do not load the gateway.
"""

from __future__ import annotations

from pathlib import Path

from retrieval.gateway.article_vectors import ArticleVectors
from retrieval.index.backends.card import Card
from retrieval.index.segments.manifest import OpenOptions
from server.evidence.article_vectors import ArticleFinder
from server.evidence.encoders import EncoderPool
from server.settings.loading import gateway_dir
from server.settings.schema import Settings
from server.wiring.namespaces import backend_name, search_device, vector_card
from server.wiring.ncbi import has_own_gateway


def article_finder(settings: Settings, encoders: EncoderPool, card: Card | None = None) -> ArticleFinder | None:
    """Return what finds the built-in gateway's articles by vectors, None where another gateway replaces it.

    ``card``: where vectors are searched, None for the processor.
    """
    if not has_own_gateway(settings):
        return None
    return ArticleFinder(gateway_dir(settings), encoders, lambda: article_vectors(settings, encoders, card=card))


def article_vectors(
    settings: Settings, encoders: EncoderPool, data_dir: Path | None = None, card: Card | None = None
) -> ArticleVectors:
    """Return the vectors of a store's articles by the default encoder, which is loaded.

    Raises:
        ModelError: it cannot be loaded.
    """
    chosen = settings.retrieval
    options = OpenOptions(device=search_device(chosen), backend=card or vector_card(chosen))
    return ArticleVectors(data_dir or gateway_dir(settings), encoders.encoder(), backend_name(chosen), options)
