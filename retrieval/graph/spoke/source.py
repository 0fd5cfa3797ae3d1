"""Query SPOKE's REST service for neighbourhoods.

``before_send`` is awaited before a request's first byte is sent; an exception from it prevents the request. ``after``
receives the outcome, also of a failed or cancelled request. All requests use the process's one ``HttpSender``.
"""

from __future__ import annotations

import asyncio
import copy
import json
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode

from models.errors import kind_of
from retrieval.errors import (
    GRAPH_INVALID,
    GRAPH_NODE_UNKNOWN,
    GRAPH_SOURCE_UNAVAILABLE,
    NCBI_MALFORMED,
    NCBI_TIMEOUT,
    NCBI_TOO_LARGE,
    GraphError,
    NcbiError,
)
from retrieval.formats.untrusted_input import whole_characters
from retrieval.graph.context.relations import statement
from retrieval.graph.spoke.reply import Reply, read_reply
from retrieval.graph.types import Edge, Neighbourhood, Node, merged
from retrieval.ncbi.calls.urls import OutgoingRequest
from retrieval.ncbi.client.transport import HttpReply, HttpSender, SendLimits

API: Final = "/api/v1"
# Node types with metadata of the graph's build instead of knowledge.
_NOT_ASKED: Final = frozenset({"DatabaseTimestamp", "Version"})
_MAX_TYPES: Final = 2000
# As published with KG-RAG (utility.py), except the prevalence: its 0.001 is below all values (1.6 to 56.8 percent) and
# would admit every place in the country; 16.4 is SPOKE's own default.
CUTOFFS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "cutoff_Compound_max_phase": ("3",),
        "cutoff_Protein_source": ("SwissProt",),
        "cutoff_DaG_diseases_sources": ("knowledge", "experiments"),
        "cutoff_DaG_textmining": ("3",),
        "cutoff_CtD_phase": ("3",),
        "cutoff_PiP_confidence": ("0.7",),
        "cutoff_ACTeG_level": ("Low", "Medium", "High"),
        "cutoff_DpL_average_prevalence": ("16.4",),
    }
)


@dataclass(frozen=True, slots=True)
class Types:
    """Hold the node types, edge types and cutoffs that SPOKE currently supports."""

    nodes: tuple[str, ...]
    edges: tuple[str, ...]
    cutoffs: frozenset[str]


def read_types(value: Any) -> Types:
    """Parse the reply of /types.

    Raises:
        GraphError: the reply has another form.
    """
    try:
        nodes, edges = (tuple(map(str, value[key])) for key in ("nodes", "edges"))
        cutoffs = frozenset(name for key in ("node_cutoffs", "edge_cutoffs") for name in value.get(key, {}))
    except (TypeError, KeyError, AttributeError) as fault:
        raise GraphError("SPOKE's list of types has not the form it had", GRAPH_INVALID) from fault
    if not 0 < len(nodes) <= _MAX_TYPES or not 0 < len(edges) <= _MAX_TYPES:
        raise GraphError(f"SPOKE lists {len(nodes)} kinds of nodes and {len(edges)} of edges", GRAPH_INVALID)
    return Types(nodes, edges, cutoffs)


def types_url(base: str) -> str:
    return f"{base.rstrip('/')}{API}/types"


def neighbourhood_url(base: str, path: tuple[str, str, str], types: Types, kinds: Iterable[str] | None) -> str:
    """Return the URL of a neighbourhood request.

    ``path``: node type, property, value ("Disease", "name", "a/b"). ``kinds``: edge types, None for all.
    """
    edge_types = set(types.edges if kinds is None else kinds)
    query = [("node_filters", name) for name in types.nodes if name not in _NOT_ASKED]
    query += [("edge_filters", name) for name in types.edges if name in edge_types]
    # Omit a cutoff that SPOKE no longer lists; if it lists none, send all.
    sent = {name: values for name, values in CUTOFFS.items() if not types.cutoffs or name in types.cutoffs}
    query += [(name, value) for name, values in sent.items() for value in values]
    query.append(("depth", "1"))
    route = "/".join(quote(part, safe="") for part in path)
    return f"{base.rstrip('/')}{API}/neighborhood/{route}?{urlencode(query)}"


def is_path_segment(value: str) -> bool:
    """Return True if the value is valid in a path, which "." and ".." are not, even percent-encoded."""
    return 0 < len(value) <= 500 and value not in {".", ".."} and value.isprintable()


def backoff_s(attempt: int) -> float:
    """Return the seconds before the next attempt; ``attempt`` counts from 1."""
    return min(8.0, 0.5 * math.pow(2, attempt - 1))


Purpose = Literal["types", "neighbourhood"]
_MAX_UNKNOWN: Final = 10_000
_UNAVAILABLE: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_PRESENT: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokeOptions:
    """Configure the SPOKE client.

    ``url`` without /api. ``types_age_s``: maximum age in seconds of the cached list of types. ``unknown_age_s``:
    seconds before a node that SPOKE lacks is queried again. ``retries`` after a first transient failure. ``limits`` of
    one request; a reply is larger and slower than NCBI's.
    """

    url: str = "https://spoke.rbvi.ucsf.edu"
    types_age_s: float = 86_400.0
    unknown_age_s: float = 3600.0
    retries: int = 1
    limits: SendLimits = field(default_factory=lambda: SendLimits(max_reply_bytes=32 * 2**20))


@dataclass(frozen=True, slots=True)
class OutboundCall:
    """Describe a request before it is sent: its full URL, its purpose, and the node whose name it contains."""

    url: str
    purpose: Purpose
    node: Node | None
    attempt: int


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """Report the outcome of a request.

    ``status``: HTTP's, or why there is no reply: Timeout, Unavailable, TooLarge, Malformed (the reply was compressed),
    cancelled. ``num_bytes`` of the reply, None without one.
    """

    status: str
    num_bytes: int | None
    seconds: float


BeforeSend = Callable[[OutboundCall], Awaitable[None]]
AfterReply = Callable[[OutboundCall, CallOutcome], Awaitable[None]]


@dataclass(slots=True)
class _Cache:
    """Cache SPOKE's types until they expire, and the nodes that it lacks until they may be queried again."""

    types: tuple[float, Types] | None = None
    unknown: OrderedDict[tuple[str, str, str], float] = field(default_factory=OrderedDict)
    types_lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class SpokeSource:
    """Query SPOKE on one event loop, with one instance per process; closing is the sender's responsibility."""

    def __init__(
        self,
        options: SpokeOptions,
        sender: HttpSender,
        before_send: BeforeSend,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._options = options
        self._sender = sender
        self._before_send = before_send
        self._sleep = sleep
        self._after: AfterReply = _no_listener
        self._memory = _Cache()

    @property
    def name(self) -> str:
        return "SPOKE"

    def with_listener(self, before_send: BeforeSend, after: AfterReply | None = None) -> SpokeSource:
        """Return a copy with other listeners that shares this source's cache."""
        other = copy.copy(self)
        other._before_send = before_send
        other._after = after or _no_listener
        return other

    async def neighbourhood(self, node: Node, *, kinds: frozenset[str] | None = None) -> Neighbourhood:
        """Return the neighbourhood of a node, queried by identifier, then by name.

        SPOKE renames nodes between its weekly releases, while its identifiers stay. ``complete`` is False if an item of
        the reply could not be read. Exceptions of ``before_send`` propagate.
        """
        key = (node.kind, node.identifier, node.name)
        if time.monotonic() < self._memory.unknown.get(key, 0.0):
            raise self._not_there(node)
        types = await self._known_types()
        if node.kind not in types.nodes:
            raise GraphError(f"SPOKE has no nodes of the kind {node.kind!r}", GRAPH_NODE_UNKNOWN)
        edge_types = None if kinds is None else kinds & frozenset(types.edges)
        for part, value in (("identifier", node.identifier), ("name", node.name)):
            if not is_path_segment(value) or edge_types == frozenset():
                continue
            url = neighbourhood_url(self._options.url, (node.kind, part, value), types, edge_types)
            reply = await asyncio.to_thread(_parsed, await self._get(url, "neighbourhood", node))
            if reply is not None and (root := _root(reply, node)) is not None:
                return _neighbourhood(reply, root, kinds)
        if edge_types == frozenset():
            return Neighbourhood(node=node, statements=(), graph="SPOKE", release=_today())
        self._cache_unknown(key)
        raise self._not_there(node)

    async def _known_types(self) -> Types:
        async with self._memory.types_lock:
            if self._memory.types is not None and time.monotonic() < self._memory.types[0]:
                return self._memory.types[1]
            reply = await self._get(types_url(self._options.url), "types", None)
            if reply.status != _PRESENT:
                raise GraphError(f"SPOKE's list of types: status {reply.status}", GRAPH_INVALID)
            types = read_types(_json(reply))
            self._memory.types = (time.monotonic() + self._options.types_age_s, types)
            return types

    async def _get(self, url: str, purpose: Purpose, node: Node | None) -> HttpReply:
        """Return the first reply whose status is not transient.

        Raises:
            GraphError: after the last attempt; the reply is too large or compressed.
        """
        attempt = 0
        while True:
            attempt += 1
            departure = OutboundCall(url, purpose, node, attempt)
            await self._before_send(departure)
            fault: GraphError
            try:
                reply = await self._send(departure)
                if reply.status not in _UNAVAILABLE:
                    return reply
                fault = GraphError(f"SPOKE answers with status {reply.status} ({purpose})", GRAPH_SOURCE_UNAVAILABLE)
            except NcbiError as error:
                if error.fault in (NCBI_TOO_LARGE, NCBI_MALFORMED):
                    raise GraphError(f"SPOKE's {purpose}: {_reworded(error)}", GRAPH_INVALID) from error
                slow = "in time" if NCBI_TIMEOUT.is_of(error) else "at all"
                fault = GraphError(
                    f"SPOKE does not answer {slow} ({purpose}, attempt {attempt})", GRAPH_SOURCE_UNAVAILABLE
                )
                fault.__cause__ = error
            if attempt > self._options.retries:
                raise fault
            await self._sleep(backoff_s(attempt))

    async def _send(self, departure: OutboundCall) -> HttpReply:
        started = time.monotonic()
        try:
            reply = await self._sender.send(OutgoingRequest("GET", departure.url), self._options.limits)
        except BaseException as fault:
            cancelled = isinstance(fault, asyncio.CancelledError)
            status = "cancelled" if cancelled else kind_of(fault).removeprefix("Ncbi")
            await self._after(departure, CallOutcome(status, None, time.monotonic() - started))
            raise
        await self._after(departure, CallOutcome(str(reply.status), len(reply.body), time.monotonic() - started))
        return reply

    def _cache_unknown(self, key: tuple[str, str, str]) -> None:
        self._memory.unknown[key] = time.monotonic() + self._options.unknown_age_s
        self._memory.unknown.move_to_end(key)
        while len(self._memory.unknown) > _MAX_UNKNOWN:
            self._memory.unknown.popitem(last=False)

    def _not_there(self, node: Node) -> GraphError:
        return GraphError(
            f"SPOKE has no {node.kind} {node.identifier!r} and none named {node.name!r}", GRAPH_NODE_UNKNOWN
        )


async def _no_listener(_: OutboundCall, __: CallOutcome) -> None:
    pass


def _parsed(reply: HttpReply) -> Reply | None:
    """Parse a neighbourhood; None if SPOKE has no such node."""
    if reply.status == 404:
        return None
    if reply.status != _PRESENT:
        raise GraphError(f"SPOKE refuses the request: status {reply.status}", GRAPH_INVALID)
    items = _json(reply)
    if not isinstance(items, list):
        raise GraphError("SPOKE's neighbourhood is no list", GRAPH_INVALID)
    found = read_reply(items)
    if items and not found.nodes:
        raise GraphError(f"SPOKE's neighbourhood has no node that can be read: {found.faults[0]}", GRAPH_INVALID)
    return found if found.nodes else None


def _json(reply: HttpReply) -> Any:
    try:
        return json.loads(whole_characters(reply.body.decode("utf-8-sig", "replace")))
    except (ValueError, RecursionError) as fault:
        kind = reply.content_type.partition(";")[0] or "no type"
        raise GraphError(
            f"SPOKE answers what is no JSON, or cut ({kind}, {len(reply.body)} bytes)", GRAPH_INVALID
        ) from fault


def _root(reply: Reply, node: Node) -> str | None:
    """Return the reply's own id of the requested node, or None."""
    if reply.root:
        return reply.root
    for key, found in reply.nodes.items():
        if found.kind == node.kind and node.identifier == found.identifier:
            return key
    alike = [k for k, n in reply.nodes.items() if n.kind == node.kind and n.name.casefold() == node.name.casefold()]
    return alike[0] if alike else None


def _neighbourhood(reply: Reply, root: str, kinds: frozenset[str] | None) -> Neighbourhood:
    node = reply.nodes[root]
    by_id = {found.node_id: found for found in reply.nodes.values()}
    edges: dict[str, list[Edge]] = {}
    for edge in reply.edges:
        if node.node_id in (edge.source_id, edge.target_id) and (kinds is None or edge.kind in kinds):
            edges.setdefault(edge.edge_id, []).append(edge)
    return Neighbourhood(
        node=node,
        statements=tuple(
            statement(merged(same), by_id[same[0].source_id], by_id[same[0].target_id]) for same in edges.values()
        ),
        graph="SPOKE",
        release=_today(),
        complete=not reply.faults,
    )


def _today() -> str:
    """Return today's date as the release, because SPOKE's replies do not name one."""
    return f"as of {datetime.now(UTC).date().isoformat()}"


def _reworded(error: NcbiError) -> str:
    return "the reply is larger than allowed" if NCBI_TOO_LARGE.is_of(error) else "the reply came compressed"
