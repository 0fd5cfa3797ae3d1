"""What a method may ask of the namespaces, and what it gets. Knows nothing of how they are searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from retrieval.corpus.ranking import Found, Retriever
from server.methods.base import Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """``namespaces`` (): all that the request may read. ``retriever`` None: the best that all of them have. ``k``
    passages for each query; with ``rerank`` the cross-encoder judges them and so many are kept."""

    namespaces: tuple[str, ...] = ()
    retriever: Retriever | None = None
    k: int = 32
    rerank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """``lists``: for each query its passages, best first. No ``namespaces``: the request may read none."""

    namespaces: tuple[str, ...]
    retriever: str
    lists: tuple[tuple[Found, ...], ...]
    seconds: float = 0.0


class Passages(Protocol):
    """The namespaces that one request may read."""

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        ...

    def check(self, wanted: Wanted) -> None:
        """Raises NamespaceUnknown, with what there is, and OptionInvalid."""
        ...

    async def find(self, queries: Sequence[str], wanted: Wanted) -> Gathered:
        """One search for all queries. Raises RetrievalError and ModelError (the encoder's)."""
        ...


class PassageSource(Protocol):
    def open(self, ask: Ask) -> Passages: ...
