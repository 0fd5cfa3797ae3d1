"""Assemble the search of the gateway's articles by vectors.

Apart from ``retrieval``, so that commands on namespaces do not load the gateway.
"""

from __future__ import annotations

from pathlib import Path

from retrieval.gateway.article_vectors import ArticleVectors
from server.evidence.article_vectors import ArticleFinder
from server.evidence.encoders import EncoderPool
from server.settings.loading import gateway_dir
from server.settings.schema import Settings
from server.wiring.namespaces import backend_name, search_device
from server.wiring.ncbi import has_own_gateway


def article_finder(settings: Settings, encoders: EncoderPool) -> ArticleFinder | None:
    """Return what finds the built-in gateway's articles by vectors, None where another gateway replaces it."""
    if not has_own_gateway(settings):
        return None
    return ArticleFinder(gateway_dir(settings), encoders, lambda: article_vectors(settings, encoders))


def article_vectors(settings: Settings, encoders: EncoderPool, data_dir: Path | None = None) -> ArticleVectors:
    """Return the vectors of a store's articles by the default encoder, which is loaded.

    Raises:
        ModelError: it cannot be loaded.
    """
    chosen = settings.retrieval
    folder = data_dir or gateway_dir(settings)
    return ArticleVectors(folder, encoders.encoder(), backend_name(chosen), search_device(chosen))
