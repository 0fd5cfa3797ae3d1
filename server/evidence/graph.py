"""Share the knowledge graph, with its names and vectors, between all answers of the process.

The graph is opened at the first question.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from models.decoding.types import Call
from models.encoders.base import Encoder, Floats, PassageText
from models.errors import kind_of
from retrieval.errors import EGRESS_REFUSED, GRAPH_NODE_UNKNOWN, GraphError, NcbiError
from retrieval.graph.linking.dictionary_lookup.dictionary import build_dictionary
from retrieval.graph.linking.dictionary_lookup.terms import term_names
from retrieval.graph.linking.linker import Linker
from retrieval.graph.linking.model_extraction import Extractor
from retrieval.graph.spoke.source import CallOutcome, OutboundCall, SpokeSource
from retrieval.graph.store.catalog import open_or_build
from retrieval.graph.store.reader import LocalGraph
from retrieval.graph.types import GraphStore, Linked, LinkOptions, Mention, Neighbourhood, Node, Statement
from retrieval.ncbi.session import NcbiSession
from retrieval.observer import NullObserver, Tracer
from retrieval.terminology.concepts import shipped_terminology
from server.daemon_thread import run_in_daemon_thread
from server.egress.policy import EgressContext
from server.egress.router import Egress, InboundReply, OutboundRequest
from server.evidence.encoders import EncoderPool
from server.evidence.ncbi import admitted, through_tape
from server.evidence.text_cache import DEFAULT_BYTES, TextCache
from server.methods.base import AnswerRequest
from server.tape import is_replaying, taped
from server.types import EgressMode

_SUMMARY: Final = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esummary.fcgi?db=pubmed&retmode=json&id="
_RECORDS_A_CALL: Final = 20
_RETRACTIONS_S: Final = 3.0
Encode = Callable[[Sequence[str]], Awaitable[Floats]]
_T = TypeVar("_T")
_NO_ROW: Final = -1


class StatementVectors(TextCache):
    """Encode statements and cache their vectors; one instance per encoder and process."""

    def __init__(self, fingerprint: Mapping[str, Any], encode: Encode, max_bytes: int = DEFAULT_BYTES) -> None:
        """Create an empty cache.

        ``encode`` returns float32 [n, dim] of passages; it may compute them on any thread.
        """

        async def rows(texts: Sequence[str]) -> list[bytes]:
            return [vector.tobytes() for vector in (await encode(texts)).astype(np.float16)]

        super().__init__(fingerprint, rows, max_bytes)

    async def of(self, texts: Sequence[str]) -> Floats:
        """Return float32 [n, dim], in the order of ``texts``; raises as ``rows_of``."""
        rows = await self.rows_of(texts)
        return np.frombuffer(b"".join(rows), np.float16).reshape(len(rows), -1).astype(np.float32)


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
        encoded = await self._elsewhere.of([statements[place].text for place in new])
        vectors = np.empty((len(rows), encoded.shape[1]), np.float32)
        vectors[new] = encoded
        if stored:
            vectors[stored] = await asyncio.to_thread(self._store.vectors, [rows[place] for place in stored])
        return vectors

    async def _passages(self, texts: Sequence[str]) -> Floats:
        passages = [PassageText("", text) for text in texts]
        return await self._encode(lambda encoder: encoder.encode_passages(passages))

    async def _encode(self, work: Callable[[Encoder], _T]) -> _T:
        return await self._pool.run(lambda: work(self._encoder))


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """Hold an open graph with its linker."""

    store: LocalGraph
    graph: StoredGraph
    linker: Linker


@dataclass(frozen=True, slots=True)
class GraphLocation:
    """Locate the graph of this machine and name the encoder of its vectors.

    ``cache_bytes`` bounds the stored vectors of SPOKE's statements.
    """

    root: Path
    name: str
    encoder: str
    cache_bytes: int = DEFAULT_BYTES


@dataclass(frozen=True, slots=True)
class Spoke:
    """Describe access to SPOKE.

    ``is_here`` is whether its host is this machine, so that nothing leaves.
    """

    source: SpokeSource
    host: str
    is_here: bool


class GraphService:
    """Share one open graph between answers, each with its own egress mode.

    Safe from many tasks of one event loop.
    """

    def __init__(
        self,
        place: GraphLocation,
        pool: EncoderPool,
        egress: Egress,
        spoke: Spoke | None = None,
        parts: Tracer | None = None,
    ) -> None:
        self._place = place
        self._pool = pool
        self._egress = egress
        self._spoke = spoke
        self.parts: Tracer = parts or NullObserver()
        self._opening: asyncio.Task[Opened] | None = None

    def open(self, ask: AnswerRequest, egress: EgressMode | None) -> AnswerGraph:
        """Return the graph for one answer.

        Raises:
            EgressRaised: the mode is above that of the request's key.
        """
        return AnswerGraph(self, self._spoke, self._egress, admitted(self._egress, ask, egress))

    @property
    def place(self) -> GraphLocation:
        return self._place

    @taped("links", Linked, lambda _, question, extractor=None: (question, extractor is not None), GraphError)
    async def link(self, question: str, extractor: Extractor | None = None) -> Linked:
        """Link the question's mentions to nodes of the graph.

        Raises:
            GraphError: there is no such graph, or it is damaged.
            ModelError: its encoder is not available.
        """
        with self.parts.part("link", extraction="model" if extractor else "dictionary") as part:
            linker = (await self.opened()).linker
            if extractor is None:
                linked = await linker.link(question)
            else:
                linked = await replace(linker, extractor=extractor).link(question, LinkOptions(method="model"))
            part.annotate(found=len(linked.mentions))
        return linked

    @taped("broader", Mention | None, lambda _, text, mention: (text, mention), GraphError)
    async def broader(self, text: str, mention: Mention) -> Mention | None:
        return await (await self.opened()).linker.broader(text, mention)

    async def close(self) -> None:
        task, self._opening = self._opening, None
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return
        opened = task.result()
        opened.store.close()

    async def opened(self) -> Opened:
        """Open the graph once and return it.

        A cancelled caller does not cancel the opening for the others; after a failure, the next caller opens it again.
        """
        return await asyncio.shield(self._begin())

    async def warm_up(self, _: object) -> None:
        """Begin to build the shipped graph where it is not here yet; ``opened`` waits for it, and tells its failure."""
        if not (self._place.root / self._place.name).is_dir():
            self._begin()

    def _begin(self) -> asyncio.Task[Opened]:
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._forget_failure)
        return self._opening

    async def _open(self) -> Opened:
        encoder = await self._pool.run(lambda: self._pool.encoder(self._place.encoder))
        # Not in the encoding thread, which other questions need meanwhile.
        return await run_in_daemon_thread(lambda: self._load(encoder), "graph")

    def _forget_failure(self, task: asyncio.Task[Opened]) -> None:
        if (task.cancelled() or task.exception() is not None) and self._opening is task:
            self._opening = None

    def _load(self, encoder: Encoder) -> Opened:
        started = time.monotonic()
        store = open_or_build(self._place.root, self._place.name, encoder)
        try:
            names = term_names(shipped_terminology(), self._place.root)
            linker = Linker(build_dictionary(store, names=names))
        except BaseException:
            store.close()
            raise
        seconds = time.monotonic() - started
        log.info("graph ready: name=%s nodes=%d seconds=%.1f", self._place.name, store.manifest.nodes, seconds)
        return Opened(store, StoredGraph(store, self._pool, encoder, self._place.cache_bytes), linker)


class AnswerGraph:
    """Query the graphs for one answer: the local one, and SPOKE where the settings name it and the mode allows it.

    With ``local-first`` SPOKE is queried for what is not here; else it precedes the graph of this machine, which
    answers where SPOKE does not know the node, may not be queried, or does not reply.
    """

    def __init__(
        self, service: GraphService, spoke: Spoke | None, egress: Egress, egress_context: EgressContext
    ) -> None:
        self._service = service
        self._egress = egress
        self._asker = egress_context
        self._spoke = spoke if spoke is not None and (spoke.is_here or egress_context.mode != "off") else None
        self._used: dict[str, str] = {}

    @property
    def name(self) -> str:
        """Return the names of the graphs that answered, by default the local graph's.

        One node's statements may come from here and another's from SPOKE.
        """
        return " and ".join(self._used) or self._service.place.name

    @property
    def release(self) -> str:
        return " and ".join(self._used.values())

    async def neighbourhood(self, node: Node) -> Neighbourhood:
        """Return the statements on a node and its neighbours; raises as ``_found``."""
        found = await self._found(node)
        if is_replaying():
            # The store of this machine may have other rows by now, so that the statements are encoded anew.
            found = replace(found, statements=tuple(replace(one, row=_NO_ROW) for one in found.statements))
        self._used[found.graph] = found.release
        return found

    @taped("graph", Neighbourhood, lambda self, node: node.node_id, GraphError)
    async def _found(self, node: Node) -> Neighbourhood:
        """Look up a node here and, where that is allowed, at SPOKE.

        Raises:
            GraphError or EGRESS_REFUSED: SPOKE failed or was refused, and the
                local graph has no statements either.
        """
        with self._service.parts.part("lookup") as part:
            local = await (await self._service.opened()).graph.neighbourhood(node)
            found = local
            if self._spoke is not None and not (self._asker.mode == "local-first" and local.statements):
                found = await self._outside(self._spoke, node, local)
            part.annotate(source="here" if found is local else "spoke", found=len(found.statements))
        return found

    async def encode(self, question: str) -> Floats:
        return await (await self._service.opened()).graph.encode(question)

    async def vectors(self, statements: Sequence[Statement]) -> Floats:
        return await (await self._service.opened()).graph.vectors(statements)

    async def retracted(self, pmids: Sequence[str]) -> frozenset[str]:
        """Return the articles that the records of this machine mark as retracted; nothing leaves for this.

        An article without a record here, and one whose record cannot be read in time, is not among them.
        """
        fetch = through_tape(partial(self._egress.fetch_here, egress_context=self._asker), "here")
        session = NcbiSession(fetch, self._egress.site_of("local-first"))
        found: set[str] = set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_RETRACTIONS_S):
                for first in range(0, len(pmids), _RECORDS_A_CALL):
                    ids = ",".join(pmids[first : first + _RECORDS_A_CALL])
                    reply = await session(Call(f"{_SUMMARY}{ids}", first))
                    found.update(reply.record.get("retracted", ()))
        return frozenset(found)

    async def _outside(self, spoke: Spoke, node: Node, local: Neighbourhood) -> Neighbourhood:
        async def before(departure: OutboundCall) -> None:
            if not spoke.is_here:
                await self._egress.authorize_request(self._asker, _outbound(spoke.host, departure))

        async def after(departure: OutboundCall, arrival: CallOutcome) -> None:
            if not spoke.is_here:
                reply = InboundReply(status=arrival.status, num_bytes=arrival.num_bytes, seconds=arrival.seconds)
                await self._egress.record_reply(self._asker, _outbound(spoke.host, departure), reply)

        try:
            return await spoke.source.with_listener(before, after).neighbourhood(node)
        except (GraphError, NcbiError) as error:
            if GRAPH_NODE_UNKNOWN.is_of(error):
                return local
            if isinstance(error, NcbiError) and not EGRESS_REFUSED.is_of(error):
                raise
            if not local.statements:
                raise
            log.warning("SPOKE not used, the graph here answers: cause=%s", kind_of(error))
            return local


def _outbound(host: str, departure: OutboundCall) -> OutboundRequest:
    """Describe a request to SPOKE for the egress rules.

    It holds an identifier and a name of a public vocabulary; the list of types reveals nothing of a question.
    """
    node = departure.node
    return OutboundRequest(
        host=host,
        endpoint=f"spoke_{departure.purpose}",
        classes=("id", "term") if node else (),
        num_bytes=len(departure.url),
        params={"node": node.node_id, "name": node.name} if node else {},
    )
