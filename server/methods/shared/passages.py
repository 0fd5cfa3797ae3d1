"""Define how a method searches the namespaces, and the results; knows nothing of the search itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from retrieval.corpus.search.ranking import RRF_4, RankedPassage, Retriever
from server.methods.base import AnswerRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageQuery:
    """Hold the parameters of a search.

    ``namespaces`` () means all that the request may read. ``retriever`` None means the best one that all of them have.
    ``k`` passages are found for each query; with ``rerank``, the cross-encoder judges them and that many are retained.
    ``documents``: ids of those whose passages may be found, None for all.
    """

    namespaces: tuple[str, ...] = ()
    retriever: Retriever | None = None
    k: int = 32
    rerank: int = 0
    documents: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Hold the results of a search.

    ``lists`` has the passages of each query, best first. Empty ``namespaces`` means that the request may read none.
    ``rankers`` are the rankings that were fused; ``missing`` those of the paper that ``rrf-4`` lacks here.
    ``faults``: what of the site's tools failed.
    """

    namespaces: tuple[str, ...]
    retriever: str
    lists: tuple[tuple[RankedPassage, ...], ...]
    seconds: float = 0.0
    rankers: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def record(self) -> dict[str, Any]:
        """Return the fields of a trace that tell where was searched, and by what."""
        return {
            "namespaces": list(self.namespaces),
            "retriever": self.retriever,
            "rankers": list(self.rankers),
            "missing_rankers": list(self.missing),
            "retrieval_s": round(self.seconds, 4),
        }

    @property
    def way(self) -> str:
        """Return the retriever, of ``rrf-4`` with what it fused and what it lacks, and what failed."""
        also = "".join(f"; {fault}" for fault in self.faults)
        if self.retriever != RRF_4:
            return self.retriever + also
        lacking = f"; of the paper's four {', '.join(self.missing)} missing" if self.missing else ""
        return f"{self.retriever} ({', '.join(self.rankers)}{lacking}){also}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceScores:
    """Hold how near each sentence is to the question; an empty tuple means that nothing compared them.

    ``encoder`` is the name of the encoder of ``cosines``, "" without one. ``late`` are similarities of its tokens (late
    interaction), comparable within one question. ``cross`` are a cross-encoder's logits.
    """

    encoder: str = ""
    cosines: tuple[float, ...] = ()
    late: tuple[float, ...] = ()
    cross: tuple[float, ...] = ()


class Passages(Protocol):
    """Search the namespaces that one request may read."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all readable namespaces."""
        ...

    def check(self, passage_query: PassageQuery) -> None:
        """Validate the parameters of a search.

        Raises:
            NamespaceUnknown: with the names that exist.
            OptionInvalid: an option cannot be served.
        """
        ...

    async def find(self, queries: Sequence[str], passage_query: PassageQuery) -> Gathered:
        """Search all queries at once.

        Raises:
            RetrievalError: the search failed.
            ModelError: the encoder failed.
        """
        ...


class PassageSource(Protocol):
    """Open the namespaces that a request may read."""

    def open(self, ask: AnswerRequest) -> Passages: ...
