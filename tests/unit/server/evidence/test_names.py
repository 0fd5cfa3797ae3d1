"""Names of a text are those of the graph, symbols, and words that are not English."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from retrieval.errors import GraphError
from retrieval.gateway.query.synonyms import StoreSynonyms
from retrieval.gateway.store.open import open_store
from retrieval.graph.linking.dictionary_lookup.terms import term_names
from retrieval.graph.types import Linked, Mention, Node, Span
from retrieval.terminology.concepts import parse
from server.evidence.names import GraphNames, QueryNames

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


_TABLE = """\
concept\tsource\tidentifier\tkind\tnames\tclaimed
0\tdoid\tDOID:1\tDisease\trheumatoid arthritis|arthritis, rheumatoid|atrophic polyarthritis\t
1\tdrugbank\tDB1\tDrug\tmethotrexate|Trexall\t
2\tmesh\tMESH:D1\tDisease\tgout\t
3\tdrugbank\tDB2\tDrug\tinterleukin 6 of the table|IL-6\t
"""


@pytest.fixture
def query_names(tmp_path: Path) -> QueryNames:
    ordinary = frozenset({"large", "set", "arthritis", "of", "the", "table"})
    genes = StoreSynonyms(lambda: open_store(tmp_path), ordinary.__contains__)
    return QueryNames(genes, lambda: term_names(parse(_TABLE.encode())))


async def test_genes_come_from_the_store_and_the_rest_from_the_terminology(query_names: QueryNames) -> None:
    """Each with its other names; what has none is not told, and a gene's name is looked for once."""
    found = {
        one.name: one.synonyms
        for one in query_names.named_in("Does Trexall lower IL-6 in atrophic polyarthritis or gout?")
    }
    assert "interleukin 6" in found.pop("IL-6")
    assert found == {"Trexall": ("methotrexate",), "atrophic polyarthritis": ("rheumatoid arthritis",)}
    assert query_names.is_gene("IL6") and "interleukin 6" in query_names.synonyms("IL6")
    await query_names.close()


def test_a_subject_is_known_by_the_words_of_its_names_that_english_has_not(query_names: QueryNames) -> None:
    subjects = query_names.subjects_in("Does Trexall help in rheumatoid arthritis?")
    assert [*map(sorted, subjects)] == [["methotrexate", "trexall"], ["atrophic", "polyarthritis", "rheumatoid"]]
    assert query_names.subjects_in("Is arthritis, rheumatoid, set in the table?")[0] == subjects[1]
    assert query_names.subjects_in("Is it the table?") == ()
