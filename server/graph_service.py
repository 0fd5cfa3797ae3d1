"""Share the knowledge graph, with its names and vectors, between all answers of the process.

The graph is opened at the first question.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from models.encoders.base import Floats
from retrieval.errors import NcbiRefusedByEgress
from retrieval.graph.catalog import open_or_sample
from retrieval.graph.errors import GraphError, GraphNodeUnknown
from retrieval.graph.linking.dictionary import build_dictionary
from retrieval.graph.linking.linker import Linker
from retrieval.graph.linking.model_extraction import Extractor
from retrieval.graph.linking.nearest import build_nearest
from retrieval.graph.linking.types import Linked, LinkOptions
from retrieval.graph.spoke import Arrival, Departure, SpokeSource
from retrieval.graph.store_read import LocalGraph
from retrieval.graph.types import Mention, Neighbourhood, Node, Statement
from retrieval.observing import Parts, Unobserved
from server.egress import Asker, Egress
from server.egress_places import InboundReply, OutboundRequest
from server.egress_settings import EgressMode
from server.encoder_pool import EncoderPool
from server.graph_setup import build_spoke, graph_encoder_name, graphs_dir
from server.methods.base import Ask
from server.ncbi_setup import Ncbi
from server.settings import Settings, is_loopback
from server.statement_vectors import DEFAULT_BYTES
from server.stored_graph import StoredGraph

log = logging.getLogger(__name__)
# Above this number of names, their vectors are searched in an index on the disk, beside the graph.
_IN_MEMORY = 20_000


@dataclass(frozen=True, slots=True)
class Opened:
    """Hold an open graph with its linker."""

    store: LocalGraph
    graph: StoredGraph
    linker: Linker


def build_graph_service(settings: Settings, pool: EncoderPool, ncbi: Ncbi, parts: Parts | None = None) -> GraphService:
    """Build the graph service from the settings.

    Raises:
        EncoderUnknown: the settings do not name the graph's encoder.
    """
    encoder = graph_encoder_name(settings)
    pool.check(encoder)
    place = GraphPlace(graphs_dir(settings), settings.graph.name, encoder, settings.graph.vector_cache_bytes)
    spoke = build_spoke(settings, ncbi.sender, _not_for_an_answer)
    host = settings.graph.spoke_host or ""
    source = None if spoke is None else Spoke(spoke, host, is_loopback(host))
    return GraphService(place, pool, ncbi.egress, source, parts)


async def _not_for_an_answer(_: Departure) -> None:
    raise NcbiRefusedByEgress("SPOKE is only asked for an answer")


@dataclass(frozen=True, slots=True)
class GraphPlace:
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
        place: GraphPlace,
        pool: EncoderPool,
        egress: Egress,
        spoke: Spoke | None = None,
        parts: Parts | None = None,
    ) -> None:
        self._place = place
        self._pool = pool
        self._egress = egress
        self._spoke = spoke
        self.parts: Parts = parts or Unobserved()
        self._opening: asyncio.Task[Opened] | None = None

    def open(self, ask: Ask, egress: EgressMode | None) -> AnswerGraph:
        """Return the graph for one answer.

        Raises:
            EgressRaised: the mode is above that of the request's key.
        """
        return AnswerGraph(self, self._spoke, self._egress, self._egress.admit(ask.request_id, ask.key_id, egress))

    @property
    def place(self) -> GraphPlace:
        return self._place

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
            part.tell(found=len(linked.mentions))
        return linked

    async def broader(self, text: str, mention: Mention) -> Mention | None:
        return await (await self.opened()).linker.broader(text, mention)

    async def close(self) -> None:
        task, self._opening = self._opening, None
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return
        opened = task.result()
        if opened.linker.nearest is not None:
            opened.linker.nearest.close()
        opened.store.close()

    async def opened(self) -> Opened:
        """Open the graph once and return it.

        A cancelled caller does not cancel the opening for the others; after a failure, the next caller opens it again.
        """
        if self._opening is None:
            self._opening = asyncio.create_task(self._pool.run(self._load))
            self._opening.add_done_callback(self._forget_failure)
        return await asyncio.shield(self._opening)

    def _forget_failure(self, task: asyncio.Task[Opened]) -> None:
        if (task.cancelled() or task.exception() is not None) and self._opening is task:
            self._opening = None

    def _load(self) -> Opened:
        started = time.monotonic()
        encoder = self._pool.encoder(self._place.encoder)
        store = open_or_sample(self._place.root, self._place.name, encoder)
        try:
            names = self._place.root / ".names" / self._place.name if store.manifest.nodes > _IN_MEMORY else None
            linker = Linker(build_dictionary(store), build_nearest(store, encoder, names))
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

    def __init__(self, service: GraphService, spoke: Spoke | None, egress: Egress, asker: Asker) -> None:
        self._service = service
        self._egress = egress
        self._asker = asker
        self._spoke = spoke if spoke is not None and (spoke.is_here or asker.mode != "off") else None
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
        """Return the statements on a node and its neighbours.

        Raises:
            GraphSourceUnavailable, another GraphError or NcbiRefusedByEgress: SPOKE failed or was refused, and the
                local graph has no statements either.
        """
        with self._service.parts.part("lookup") as part:
            local = await (await self._service.opened()).graph.neighbourhood(node)
            found = local
            if self._spoke is not None and not (self._asker.mode == "local-first" and local.statements):
                found = await self._outside(self._spoke, node, local)
            part.tell(source="here" if found is local else "spoke", found=len(found.statements))
        self._used[found.graph] = found.release
        return found

    async def encode(self, question: str) -> Floats:
        return await (await self._service.opened()).graph.encode(question)

    async def vectors(self, statements: Sequence[Statement]) -> Floats:
        return await (await self._service.opened()).graph.vectors(statements)

    async def _outside(self, spoke: Spoke, node: Node, local: Neighbourhood) -> Neighbourhood:
        async def before(departure: Departure) -> None:
            if not spoke.is_here:
                await self._egress.let_out(self._asker, _outbound(spoke.host, departure))

        async def after(departure: Departure, arrival: Arrival) -> None:
            if not spoke.is_here:
                reply = InboundReply(status=arrival.status, num_bytes=arrival.num_bytes, seconds=arrival.seconds)
                await self._egress.came_back(self._asker, _outbound(spoke.host, departure), reply)

        try:
            return await spoke.source.with_listener(before, after).neighbourhood(node)
        except GraphNodeUnknown:
            return local
        except (GraphError, NcbiRefusedByEgress) as error:
            if not local.statements:
                raise
            log.warning("SPOKE not used, the graph here answers: cause=%s", type(error).__name__)
            return local


def _outbound(host: str, departure: Departure) -> OutboundRequest:
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
