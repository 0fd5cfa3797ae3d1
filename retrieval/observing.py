"""What retrieval tells whoever counts and times it: how long, how it ended, never about what.

The names are closed sets: endpoints of the call table, retrievers, kinds of failures. No query, term, namespace or key
is ever passed.
"""

from __future__ import annotations

from typing import Literal, Protocol

from retrieval.types import Endpoint

Encoded = Literal["query", "passage", "pair"]


class RetrievalObserver(Protocol):
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


class Unobserved:
    """Nobody counts."""

    def ncbi_request(self, endpoint: Endpoint, failure: str, seconds: float) -> None: ...

    def ncbi_waited(self, seconds: float) -> None: ...

    def ncbi_cache(self, *, hit: bool) -> None: ...

    def searched(self, retriever: str, num_namespaces: int, seconds: float) -> None: ...

    def encoded(self, kind: Encoded, num_texts: int, seconds: float) -> None: ...
