"""Define how retrieval reports durations and outcomes to an observer, never contents.

The names are closed sets: endpoints of the call table, retrievers, kinds of failures. No query, term, namespace or key
is ever passed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Literal, Protocol, TypedDict, Unpack

from retrieval.types import Endpoint

Encoded = Literal["query", "passage", "pair"]
# Parts that take time and may have children: a search of namespaces, a call, the linking of a question to a graph, a
# graph lookup, a round of an iterative method.
PartName = Literal["search", "call", "link", "lookup", "round"]


class SpanAttributes(TypedDict, total=False):
    """Hold the attributes of a part.

    Strings are from closed sets: an endpoint, a call's status, a retriever, a source. ``remote``: something left this
    machine. ``found``: the number of passages, statements or entities.
    """

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


class TraceSpan(Protocol):
    """Record a part of a request while it runs; parts opened inside it are its children."""

    def annotate(self, **facts: Unpack[SpanAttributes]) -> None: ...

    def failed(self, kind: str) -> None:
        """Mark the part as failed without an exception that leaves it.

        ``kind`` is an error's class name. An exception that leaves the part is recorded anyway.
        """
        ...


class Tracer(Protocol):
    """Open the parts of a request."""

    def part(self, name: PartName, **facts: Unpack[SpanAttributes]) -> AbstractContextManager[TraceSpan]:
        """Return a context manager for one part.

        It is entered immediately and once, by the task or thread that the part belongs to.
        """
        ...


class RetrievalObserver(Tracer, Protocol):
    """Receive events directly after they happen.

    Methods are called from any thread; they must not raise and must not block.
    """

    def ncbi_request(self, endpoint: Endpoint, failure: str, seconds: float) -> None:
        """Record one HTTP request.

        ``failure`` is the error's class name, "" for a good reply.
        """
        ...

    def ncbi_waited(self, seconds: float) -> None:
        """Record the wait for the rate limiter before one request."""
        ...

    def ncbi_cache(self, *, hit: bool) -> None: ...

    def searched(self, retriever: str, num_namespaces: int, seconds: float) -> None:
        """Record one search, with all queries of a request together.

        ``retriever`` is one that ``retrieval.corpus.search.ranking.rankers_of`` knows.
        """
        ...

    def encoded(self, kind: Encoded, num_texts: int, seconds: float) -> None: ...


class _Nothing:
    def annotate(self, **facts: Unpack[SpanAttributes]) -> None: ...

    def failed(self, kind: str) -> None: ...


# The part of observers that do not record parts.
NULL_PART: Final[AbstractContextManager[TraceSpan]] = nullcontext(_Nothing())


class NullObserver:
    """Ignore all events."""

    def part(self, name: PartName, **facts: Unpack[SpanAttributes]) -> AbstractContextManager[TraceSpan]:
        return NULL_PART

    def ncbi_request(self, endpoint: Endpoint, failure: str, seconds: float) -> None: ...

    def ncbi_waited(self, seconds: float) -> None: ...

    def ncbi_cache(self, *, hit: bool) -> None: ...

    def searched(self, retriever: str, num_namespaces: int, seconds: float) -> None: ...

    def encoded(self, kind: Encoded, num_texts: int, seconds: float) -> None: ...
