"""Combine the store of a graph with the encoder of its vectors, for the methods that answer from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import numpy as np

from models.encoders.base import Encoder, Floats, PassageText
from retrieval.graph.base import GraphStore
from retrieval.graph.types import Neighbourhood, Node, Statement
from server.encoder_pool import EncoderPool
from server.statement_vectors import DEFAULT_BYTES, StatementVectors

_T = TypeVar("_T")
_NO_ROW: Final = -1


class StoredGraph:
    """Read a store off the event loop, and encode the statements that have no stored vector."""

    def __init__(
        self, store: GraphStore, pool: EncoderPool, encoder: Encoder, cache_bytes: int = DEFAULT_BYTES
    ) -> None:
        """Combine a store with an encoder of the pool.

        ``cache_bytes`` bounds the cached vectors of statements that the store does not hold.
        """
        self._store = store
        self._pool = pool
        self._encoder = encoder
        self._elsewhere = StatementVectors(encoder.fingerprint.as_dict(), self._passages, cache_bytes)

    @property
    def name(self) -> str:
        return self._store.graph

    @property
    def release(self) -> str:
        return self._store.release

    async def neighbourhood(self, node: Node) -> Neighbourhood:
        statements = await asyncio.to_thread(self._store.statements, node.node_id)
        return Neighbourhood(node=node, statements=statements, graph=self.name, release=self.release)

    async def encode(self, question: str) -> Floats:
        vectors = await self._encode(lambda encoder: encoder.encode_queries([question]))
        row: Floats = vectors[0]
        return row

    async def vectors(self, statements: Sequence[Statement]) -> Floats:
        rows = [statement.row for statement in statements]
        if _NO_ROW not in rows:
            return await asyncio.to_thread(self._store.vectors, rows)
        stored = [place for place, row in enumerate(rows) if row != _NO_ROW]
        new = [place for place, row in enumerate(rows) if row == _NO_ROW]
        fresh = await self._elsewhere.of([statements[place].text for place in new])
        vectors = np.empty((len(rows), fresh.shape[1]), np.float32)
        vectors[new] = fresh
        if stored:
            vectors[stored] = await asyncio.to_thread(self._store.vectors, [rows[place] for place in stored])
        return vectors

    async def _passages(self, texts: Sequence[str]) -> Floats:
        passages = [PassageText("", text) for text in texts]
        return await self._encode(lambda encoder: encoder.encode_passages(passages))

    async def _encode(self, work: Callable[[Encoder], _T]) -> _T:
        return await self._pool.run(lambda: work(self._encoder))
