"""The seams of the knowledge graph: where neighbourhoods come from, and what linking and selection need of a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from models.encoders.base import Floats
from retrieval.graph.types import Edge, Neighbourhood, Node, Statement


class NameOf(NamedTuple):
    """One name of a node; ``is_synonym`` False for the one that the graph uses."""

    name: str
    node_id: str
    kind: str
    is_synonym: bool


class GraphSource(Protocol):
    """A graph somewhere: SPOKE's server, or a store on this machine."""

    @property
    def name(self) -> str: ...

    async def neighbourhood(self, node: Node, *, kinds: frozenset[str] | None = None) -> Neighbourhood:
        """One step around a node; ``kinds``: only edges of these types.

        Raises:
            GraphNodeUnknown, GraphSourceUnavailable, GraphSourceMalformed
        """
        ...


class GraphLoader(Protocol):
    """Reads one downloaded graph with constant memory. All ``nodes`` are asked for before the ``edges``; both may read
    the files anew. A node may come twice. An edge's ends are node ids, or identifiers that only one node has.

    Raises GraphFileInvalid on the way; bad records are passed over and reported.
    """

    @property
    def place(self) -> str:
        """ "file:line" of the record that was yielded last."""
        ...

    def nodes(self) -> Iterator[Node]: ...

    def edges(self) -> Iterator[Edge]: ...


class GraphStore(Protocol):
    """A graph on this machine, read-only. Safe from many threads; every call is short."""

    @property
    def release(self) -> str: ...

    @property
    def graph(self) -> str: ...

    def names(self, kinds: Iterable[str] | None = None) -> Iterator[NameOf]: ...

    def node(self, node_id: str) -> Node | None: ...

    def statements(self, node_id: str, kinds: frozenset[str] | None = None) -> tuple[Statement, ...]:
        """All edges of a node, in either direction, by row."""
        ...

    def vectors(self, rows: Sequence[int]) -> Floats:
        """float32 [n, dim] of the statements' texts, as the graph's encoder makes them for passages."""
        ...
