"""What retrieval tells whoever counts and times it: how long, how it ended, never about what.

The names are closed sets: endpoints of the call table, retrievers, kinds of failures. No query, term, namespace or key
is ever passed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Literal, Protocol, TypedDict, Unpack

from retrieval.types import Endpoint

Encoded = Literal["query", "passage", "pair"]
# What takes time and has parts of its own: a search of namespaces, a call, the linking of a question to a graph, a look
# into a graph, a round of a method that has rounds.
PartName = Literal["search", "call", "link", "lookup", "round"]


class Facts(TypedDict, total=False):
    """All that may be told of a part. Texts are of closed sets: an endpoint, a call's status, a retriever, a source.
    ``remote``: something left this machine. ``found``: how many passages, statements or entities."""

    tool: str
    status: str
    retriever: str
    source: Literal["here", "spoke"]
    extraction: Literal["dictionary", "model"]
    remote: bool
    from_cache: bool
    attempts: int
    round: int
    namespaces: int
    queries: int
    k: int
    rerank: int
    found: int


class Part(Protocol):
    """Something under way. What is told of inside it belongs to it."""

    def tell(self, **facts: Unpack[Facts]) -> None: ...

    def failed(self, kind: str) -> None:
        """Without an error that leaves it; one that does is seen. ``kind``: an error's class name."""
        ...


class Parts(Protocol):
    def part(self, name: PartName, **facts: Unpack[Facts]) -> AbstractContextManager[Part]:
        """Entered at once and once, by the task or thread that it is part of."""
        ...


class RetrievalObserver(Parts, Protocol):
    """Called where things have just happened, from any thread; must not raise and must not block."""

    def ncbi_request(self, endpoint: Endpoint, failure: str, seconds: float) -> None:
        """One HTTP request. ``failure``: the error's class name, "" for a good reply."""
        ...

    def ncbi_waited(self, seconds: float) -> None:
        """For the limiter, before one request."""
        ...

    def ncbi_cache(self, *, hit: bool) -> None: ...

    def searched(self, retriever: str, num_namespaces: int, seconds: float) -> None:
        """``retriever`` is one of ``retrieval.corpus.ranking.Retriever``; all queries of a request together."""
        ...

    def encoded(self, kind: Encoded, num_texts: int, seconds: float) -> None: ...


class _Nothing:
    def tell(self, **facts: Unpack[Facts]) -> None: ...

    def failed(self, kind: str) -> None: ...


# Of those that are told of parts and make nothing of it.
NOTHING: Final[AbstractContextManager[Part]] = nullcontext(_Nothing())


class Unobserved:
    """Nobody counts."""

    def part(self, name: PartName, **facts: Unpack[Facts]) -> AbstractContextManager[Part]:
        return NOTHING

    def ncbi_request(self, endpoint: Endpoint, failure: str, seconds: float) -> None: ...

    def ncbi_waited(self, seconds: float) -> None: ...

    def ncbi_cache(self, *, hit: bool) -> None: ...

    def searched(self, retriever: str, num_namespaces: int, seconds: float) -> None: ...

    def encoded(self, kind: Encoded, num_texts: int, seconds: float) -> None: ...
