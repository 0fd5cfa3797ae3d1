"""Define what the compared retrieval methods share: a question as input, a context with its marked facts as output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from retrieval.graph.context.render import evidence_json
from retrieval.graph.types import Statement

TokenCount = Callable[[str], int]
NO_SOURCE: Final = "the graph names none"


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement as it stands in a context. ``names`` of its ends, case-folded. ``text`` and ``source`` are pieces
    of the context: the fact with what is said of it, and who says so."""

    names: frozenset[str]
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Retrieved:
    """``prompt``: what a model had to read before there was a context, "" where none was asked. ``nodes``: names of the
    nodes that the question was taken to be about, None for a way that takes none. ``note``: the query that was run, or
    why there is nothing."""

    context: str
    facts: tuple[Fact, ...] = ()
    prompt: str = ""
    nodes: tuple[str, ...] | None = None
    note: str = ""


class Retriever(Protocol):
    @property
    def name(self) -> str: ...

    async def retrieve(self, question: str) -> Retrieved:
        """An empty context where there is nothing; raises only what the graph or the encoder raise."""
        ...


def ends(statement: Statement) -> frozenset[str]:
    return frozenset((statement.source.name.casefold(), statement.target.name.casefold()))


def line_of(statement: Statement) -> str:
    """A statement with sources and attributes on one line."""
    return f"{' '.join(statement.text.split())} [source: {sources_of(statement)}] {evidence_json(statement)}".rstrip()


def sources_of(statement: Statement) -> str:
    return "; ".join(statement.edge.provenance) or NO_SOURCE


def fact_of_line(statement: Statement) -> Fact:
    return Fact(ends(statement), line_of(statement), f"[source: {sources_of(statement)}]")


def within(lines: list[str], budget: int, count: TokenCount) -> int:
    """How many first lines, joined by line breaks, fit ``budget`` tokens. Counts whole texts: pieces add up to
    something else."""
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high + 1) // 2
        if count("\n".join(lines[:middle])) <= budget:
            low = middle
        else:
            high = middle - 1
    return low
