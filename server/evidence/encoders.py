"""Load each encoder of the process at its first use.

Only encoders that the settings name are loaded. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar

from models.encoders.base import (
    CrossEncoder,
    Encoder,
    EncoderOptions,
    RemoteEncoderOptions,
    RemoteVectors,
    TokenEncoder,
)
from models.encoders.late_interaction import LateInteraction
from models.encoders.registry import create_cross_encoder, create_encoder, create_remote_encoder
from models.encoders.specs import KNOWN_ENCODERS
from models.errors import UnsupportedParam
from retrieval.observer import NullObserver, RetrievalObserver
from server.errors import ENCODER_UNKNOWN, RequestError
from server.observability.instrumented import InstrumentedCrossEncoder, instrumented
from server.settings.loading import xdg_dir
from server.settings.retrieval import RetrievalSettings
from server.settings.schema import Settings

log = logging.getLogger(__name__)
# Behind an encoder's name: its tower of queries, and late interaction by its tokens.
QUERY: Final = ":query"
RERANK: Final = ":rerank"
_T = TypeVar("_T")


class EncoderPool:
    """Share the loaded encoders of the process.

    Safe from many threads. An encoder that the settings do not name is never loaded, whatever the request.
    """

    def __init__(self, settings: RetrievalSettings, observer: RetrievalObserver | None = None) -> None:
        self._settings = settings
        self._observer = observer or NullObserver()
        self._options = encoder_options(settings)
        self._encoders: dict[str, Encoder] = {}
        self._cross_encoder: CrossEncoder | None = None
        self._loading = threading.Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="encoders")

    @property
    def names(self) -> tuple[str, ...]:
        return self._settings.encoder_names

    def check(self, name: str) -> None:
        """Check that the settings name the encoder.

        Raises:
            ENCODER_UNKNOWN: the settings do not name it.
        """
        if name not in self.names:
            choices = ", ".join(self.names)
            raise RequestError(
                f"there is no encoder {name[:100]!r}; there are: {choices}", ENCODER_UNKNOWN, param="model"
            )

    def encoder(self, name: str = "") -> Encoder:
        """Return the encoder, "" for the default one; block until it is loaded.

        Raises:
            ENCODER_UNKNOWN: the settings do not name it.
            ModelError: it cannot be loaded.
        """
        name = name or self._settings.encoder
        self.check(name)
        with self._loading:
            if name not in self._encoders:
                loaded = _timed(name, lambda: load_encoder(self._settings, name))
                self._encoders[name] = instrumented(loaded, self._observer)
            return self._encoders[name]

    def check_tokens(self, name: str, remedy: str) -> None:
        """Check that the encoder gives token vectors where its weights do; a remote one does not.

        ``remedy``: how the caller leaves them out.

        Raises:
            UnsupportedParam: the settings let a server compute its vectors.
        """
        if url := self._settings.remote_encoders.get(name):
            raise UnsupportedParam(
                f"tokens: {name} is computed at {url}, which gives no token vectors: create the namespace with "
                f"{remedy}, or take {name} out of retrieval.encoder_urls",
                param="tokens",
            )

    @property
    def embedders(self) -> tuple[str, ...]:
        """Return the names under which texts are embedded: of two towers, the query's has its own."""
        towers = {name: len(spec.towers) for name, spec in KNOWN_ENCODERS.items()}
        return tuple(
            name + suffix for name in self.names for suffix in (("", QUERY) if towers.get(name, 1) > 1 else ("",))
        )

    @property
    def rerankers(self) -> tuple[str, ...]:
        """Return the names of what ranks passages, the default first."""
        cross_encoder = self._settings.cross_encoder
        by_tokens = (f"{name}{RERANK}" for name in self._settings.local_encoders if _gives_tokens(name))
        return (*((cross_encoder,) if cross_encoder else ()), *by_tokens)

    def reranker(self, name: str = "") -> CrossEncoder:
        """Return the cross-encoder of the settings, or late interaction by an encoder; block until it is loaded.

        Raises:
            ENCODER_UNKNOWN: there is none of this name; the message lists those that there are.
            ModelError: it cannot be loaded.
        """
        chosen = name or next(iter(self.rerankers), "")
        if not chosen.endswith(RERANK) or chosen == self._settings.cross_encoder:
            return self.cross_encoder(chosen)
        encoder = self.encoder(chosen.removesuffix(RERANK))
        if not isinstance(encoder, TokenEncoder) or encoder.fingerprint.pooling != "mean":
            raise self._no_reranker(chosen)
        return InstrumentedCrossEncoder(LateInteraction(encoder, chosen), self._observer)

    @property
    def cross_encoder_name(self) -> str | None:
        return self._settings.cross_encoder

    def cross_encoder(self, name: str = "") -> CrossEncoder:
        """Return the one cross-encoder of the settings; block until it is loaded.

        Raises:
            ENCODER_UNKNOWN: the settings do not name it.
            ModelError: it cannot be loaded.
        """
        known = self._settings.cross_encoder
        if known is None or name not in {"", known}:
            raise self._no_reranker(name)
        with self._loading:
            if self._cross_encoder is None:
                loaded = _timed(known, lambda: create_cross_encoder(known, self._options))
                self._cross_encoder = InstrumentedCrossEncoder(loaded, self._observer)
            return self._cross_encoder

    def _no_reranker(self, name: str) -> RequestError:
        choices = ", ".join(self.rerankers) or "none: retrieval.cross_encoder names one"
        return RequestError(
            f"there is no re-ranker {name[:100]!r}; there are: {choices}", ENCODER_UNKNOWN, param="model"
        )

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run ``work`` in the one encoding thread, since two concurrent batches would slow each other down."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, copy_context().run, work)

    async def close(self) -> None:
        """Begin no more work, and close the connections to servers of encoders."""
        self._worker.shutdown(wait=False, cancel_futures=True)
        for encoder in tuple(self._encoders.values()):
            if isinstance(encoder, RemoteVectors):
                encoder.close()


def _gives_tokens(name: str) -> bool:
    """Return whether an encoder is known to give the vectors of its tokens; of others, only its files tell."""
    spec = KNOWN_ENCODERS.get(name)
    return spec is not None and spec.pooling == "mean"


def encoder_options(settings: RetrievalSettings) -> EncoderOptions:
    return EncoderOptions(device=settings.device, dtype=settings.dtype, allow_download=settings.allow_download)


def load_encoder(settings: RetrievalSettings, name: str) -> Encoder:
    """Load an encoder, or connect to the server that computes its vectors.

    Raises:
        ModelError: neither is possible.
    """
    options, url = encoder_options(settings), settings.remote_encoders.get(name)
    if url is None:
        return create_encoder(name, options)
    key = settings.encoder_api_key
    remote = RemoteEncoderOptions(
        url=url, references=xdg_dir("cache") / "encoders", api_key=None if key is None else key.get_secret_value()
    )
    return create_remote_encoder(name, remote, options)


def load_graph_encoder(settings: Settings, name: str = "") -> Encoder:
    """Load the encoder of the graph.

    Raises:
        ModelError: it cannot be loaded.
    """
    return load_encoder(settings.retrieval, name or settings.retrieval.encoder)


def _timed(name: str, load: Callable[[], _T]) -> _T:
    started = time.monotonic()
    loaded = load()
    log.info("encoder ready: name=%s seconds=%.1f", name, time.monotonic() - started)
    return loaded
