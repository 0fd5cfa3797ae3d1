"""Names of a text are those of the graph, symbols, and words that are not English."""

from __future__ import annotations

import asyncio

import pytest

from retrieval.errors import GraphError
from retrieval.graph.types import Linked, Mention, Node, Span
from server.evidence.names import GraphNames

ENGLISH = frozenset({"which", "drug", "reverses", "alias", "chromosome", "inherited", "cause"})


class Graph:
    """Know asthma; everything else that is not a short word is unlinked."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def link(self, question: str) -> Linked:
        if self._error is not None:
            raise self._error
        place = question.find("asthma")
        node = Node(node_id="d", kind="Disease", name="asthma", identifier="d")
        mentions = (Mention(node=node, start=place, end=place + 6, method="exact"),) if place >= 0 else ()
        rest = () if mentions else (Span(start=0, end=len(question), text=question),)
        return Linked(mentions=mentions, unlinked=rest)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What is asthma?", ["asthma"]),
        ("Which drug reverses heparin?", ["heparin"]),
        ("which causes cystic fibrosis, or heparin", ["cystic fibrosis", "heparin"]),
        ("Is it inherited?", []),
        ("And on which chromosome is it?", []),
        ("its aliases?", []),
        ("TP53 and asthma, then TP53", ["TP53", "asthma"]),
    ],
)
async def test_names_stand_in_order_each_once(text: str, names: list[str]) -> None:
    """What is asked of a thing is no name."""
    assert await GraphNames(Graph(), ENGLISH.__contains__).names_in(text) == names


@pytest.mark.parametrize("error", [GraphError("damaged"), TimeoutError()])
async def test_without_a_graph_symbols_are_still_found(error: Exception) -> None:
    """A conversation goes on."""
    assert await GraphNames(Graph(error), ENGLISH.__contains__).names_in("What is TP53 in asthma?") == ["TP53"]


async def test_a_cancelled_look_up_is_cancelled() -> None:
    """A client that went away is not waited for."""

    class Slow(Graph):
        async def link(self, question: str) -> Linked:
            await asyncio.sleep(60)
            return Linked(mentions=())

    task = asyncio.create_task(GraphNames(Slow(), ENGLISH.__contains__).names_in("heparin"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
