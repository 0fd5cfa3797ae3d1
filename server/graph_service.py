"""The graph that answers, with its names and vectors: opened at the first question, for all answers of the process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from models.encoders.base import Floats
from retrieval.graph.catalog import open_or_sample
from retrieval.graph.linking.dictionary import build_dictionary
from retrieval.graph.linking.linker import Linker
from retrieval.graph.linking.nearest import build_nearest
from retrieval.graph.store_read import LocalGraph
from retrieval.graph.types import Mention, Neighbourhood, Node, Statement
from server.encoder_pool import EncoderPool
from server.graph_setup import graph_encoder_name, graphs_dir
from server.kg_rag_setup import StoredGraph
from server.settings import Settings

log = logging.getLogger(__name__)
# More names than these are looked up by vectors from an index on the disk, beside the graph.
_IN_MEMORY = 20_000


@dataclass(frozen=True, slots=True)
class _Opened:
    store: LocalGraph
    graph: StoredGraph
    linker: Linker


def build_graph_service(settings: Settings, pool: EncoderPool) -> GraphService:
    """Raises EncoderUnknown: the settings do not name the graph's encoder."""
    encoder = graph_encoder_name(settings)
    pool.check(encoder)
    return GraphService(graphs_dir(settings), settings.graph.name, pool, encoder)


class GraphService:
    """What ``KgRag`` asks: a graph and a linker over it. Safe from many tasks of one event loop."""

    def __init__(self, root: Path, name: str, pool: EncoderPool, encoder: str) -> None:
        self._root = root
        self._name = name
        self._pool = pool
        self._encoder = encoder
        self._opened: _Opened | None = None
        self._opening = asyncio.Lock()

    @property
    def name(self) -> str:
        return self._opened.graph.name if self._opened else self._name

    @property
    def release(self) -> str:
        return self._opened.graph.release if self._opened else ""

    async def link(self, question: str) -> Sequence[Mention]:
        """Raises GraphError: there is no such graph, or it is damaged. ModelError: its encoder is not here."""
        opened = await self._open()
        return (await opened.linker.link(question)).mentions

    async def neighbourhood(self, node: Node) -> Neighbourhood:
        return await (await self._open()).graph.neighbourhood(node)

    async def encode(self, question: str) -> Floats:
        return await (await self._open()).graph.encode(question)

    async def vectors(self, statements: Sequence[Statement]) -> Floats:
        return await (await self._open()).graph.vectors(statements)

    async def close(self) -> None:
        if self._opened is not None:
            if self._opened.linker.nearest is not None:
                self._opened.linker.nearest.close()
            self._opened.store.close()

    async def _open(self) -> _Opened:
        async with self._opening:
            if self._opened is None:
                self._opened = await self._pool.run(self._load)
            return self._opened

    def _load(self) -> _Opened:
        started = time.monotonic()
        encoder = self._pool.encoder(self._encoder)
        store = open_or_sample(self._root, self._name, encoder)
        try:
            names = self._root / f".names-{self._name}" if store.manifest.nodes > _IN_MEMORY else None
            linker = Linker(build_dictionary(store), build_nearest(store, encoder, names))
        except BaseException:
            store.close()
            raise
        seconds = time.monotonic() - started
        log.info("graph ready: name=%s nodes=%d seconds=%.1f", self._name, store.manifest.nodes, seconds)
        return _Opened(store, StoredGraph(store, self._pool, self._encoder), linker)
