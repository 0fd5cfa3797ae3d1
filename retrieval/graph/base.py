"""Define the interfaces of the knowledge graph: sources of neighbourhoods, loaders, and the store used for linking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from models.encoders.base import Floats
from retrieval.graph.types import Edge, Neighbourhood, Node, Statement


class NameOf(NamedTuple):
    """Hold one name of a node; ``is_synonym`` is False for the name that the graph itself uses."""

    name: str
    node_id: str
    kind: str
    is_synonym: bool


class GraphSource(Protocol):
    """Provide neighbourhoods from a graph, such as SPOKE's server or a local store."""

    @property
    def name(self) -> str: ...

    async def neighbourhood(self, node: Node, *, kinds: frozenset[str] | None = None) -> Neighbourhood:
        """Return the direct neighbourhood of a node; ``kinds`` restricts it to edges of these types.

        Raises:
            GraphNodeUnknown, GraphSourceUnavailable, GraphSourceMalformed
        """
        ...


class GraphLoader(Protocol):
    """Read one downloaded graph with constant memory.

    All ``nodes`` are consumed before ``edges``; both may read the files again. A node may be yielded twice. An edge's
    ends are node ids, or identifiers that only one node has. Malformed records are skipped and reported.

    Raises:
        GraphFileInvalid: while iterating.
    """

    @property
    def place(self) -> str:
        """Return "file:line" of the last yielded record."""
        ...

    def nodes(self) -> Iterator[Node]: ...

    def edges(self) -> Iterator[Edge]: ...


class GraphStore(Protocol):
    """Read a graph on this machine, from any thread; every call is short."""

    @property
    def release(self) -> str: ...

    @property
    def graph(self) -> str: ...

    def names(self, kinds: Iterable[str] | None = None) -> Iterator[NameOf]: ...

    def node(self, node_id: str) -> Node | None: ...

    def statements(self, node_id: str, kinds: frozenset[str] | None = None) -> tuple[Statement, ...]:
        """Return all edges of a node, in either direction, by row."""
        ...

    def vectors(self, rows: Sequence[int]) -> Floats:
        """Return the passage embeddings of the statements' texts by the graph's encoder, float32 [n, dim]."""
        ...
