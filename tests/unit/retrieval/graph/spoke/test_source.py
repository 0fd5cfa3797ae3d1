"""SPOKE over HTTP: what is asked, what becomes of every kind of answer, and that each request is told first."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from graph_files import SPOKE
from ncbi_server import Answer, NcbiServer, Seen

from retrieval.errors import GRAPH_INVALID, GRAPH_NODE_UNKNOWN, GRAPH_SOURCE_UNAVAILABLE, GraphError
from retrieval.graph.spoke.source import OutboundCall, SpokeOptions, SpokeSource
from retrieval.graph.types import Neighbourhood, Node
from retrieval.ncbi.client.transport import HttpSender, SendLimits

DATA = Path(os.environ.get("ARROWHEAD_EVAL_DATA", Path(__file__).parents[6] / "shared" / "data")) / "kg"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the evaluation data are not beside the checkout")
TYPES = {
    "nodes": {"Disease": False, "Compound": False, "Gene": False, "Protein": False, "Version": False},
    "edges": {"TREATS_CtD": False, "MARKER_POS_GmpD": False, "MARKER_NEG_GmnD": False, "ENCODES_GeP": False},
    "node_cutoffs": {"cutoff_Compound_max_phase": {}},
    "edge_cutoffs": {"cutoff_DpL_average_prevalence": {}, "cutoff_CtD_phase": {}},
}
PARKINSON = Node(node_id="Disease::DOID:14330", kind="Disease", name="Parkinson's disease", identifier="DOID:14330")


def _json(value: Any) -> Answer:
    return Answer(body=json.dumps(value).encode(), headers={"Content-Type": "application/json"})


class _Asked:
    """A source before a scripted server; ``told`` has each departure, ``seen`` each request."""

    def __init__(self, answer: Callable[[Seen], Answer], *, types: Answer | None = None, **limits: Any) -> None:
        self.told: list[OutboundCall] = []
        self.slept: list[float] = []
        self._server = NcbiServer(lambda seen: (types or _json(TYPES)) if "/types" in seen.path else answer(seen))
        self._sender = HttpSender(SendLimits())
        self._limits = SendLimits(**{"timeout_s": 5.0, **limits})

    async def __aenter__(self) -> _Asked:
        await self._server.__aenter__()
        self.source = SpokeSource(
            SpokeOptions(url=self._server.url, limits=self._limits), self._sender, self._tell, self._sleep
        )
        return self

    async def __aexit__(self, *fault: Any) -> None:
        await self._sender.close()
        await self._server.__aexit__(*fault)

    @property
    def paths(self) -> list[str]:
        return [seen.path for seen in self._server.seen]

    async def ask(self, node: Node = PARKINSON, kinds: frozenset[str] | None = None) -> Neighbourhood:
        return await self.source.neighbourhood(node, kinds=kinds)

    async def _tell(self, departure: OutboundCall) -> None:
        self.told.append(departure)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def test_a_neighbourhood_has_each_edge_of_the_node_with_all_its_sources() -> None:
    """An edge between two neighbours is not one of them; a protein is called by what it is."""
    async with _Asked(lambda _: _json(SPOKE)) as asked:
        found = await asked.ask()
    assert found.node.name == "Parkinson's disease"
    assert [s.text for s in found.statements] == [
        "Compound Levodopa treats Disease Parkinson's disease",
        "Gene SNCA is a positive marker of Disease Parkinson's disease",
        "Gene SNCA is a negative marker of Disease Parkinson's disease",
    ]
    assert found.statements[0].edge.provenance == ("ChEMBL", "DrugCentral")
    assert found.statements[1].edge.pmids == ("12345", "67890")
    assert found.complete
    assert all(statement.row == -1 for statement in found.statements)


async def test_every_request_is_told_before_it_goes_and_can_be_kept_back() -> None:
    """What the listener raises goes through, and nothing is sent."""
    async with _Asked(lambda _: _json(SPOKE)) as asked:
        await asked.ask()
        assert [(told.purpose, told.node) for told in asked.told] == [("types", None), ("neighbourhood", PARKINSON)]
        assert urlsplit(asked.told[1].url).path == asked.paths[1]

        async def refuse(departure: OutboundCall) -> None:
            raise PermissionError(departure.purpose)

        kept = SpokeSource(SpokeOptions(url="http://127.0.0.1:9"), asked._sender, refuse)
        with pytest.raises(PermissionError):
            await kept.neighbourhood(PARKINSON)
        assert len(asked.paths) == 2


async def test_the_question_has_filters_and_only_cutoffs_that_spoke_knows() -> None:
    """No bookkeeping nodes, and a prevalence that does not let every place in."""
    async with _Asked(lambda _: _json(SPOKE)) as asked:
        await asked.ask(kinds=frozenset({"TREATS_CtD", "GONE_XgY"}))
        query = parse_qs(urlsplit(asked.told[1].url).query)
    assert query["edge_filters"] == ["TREATS_CtD"]
    assert "Version" not in query["node_filters"]
    cutoffs = {name: values for name, values in query.items() if name.startswith("cutoff_")}
    assert cutoffs == {
        "cutoff_Compound_max_phase": ["3"],
        "cutoff_CtD_phase": ["3"],
        "cutoff_DpL_average_prevalence": ["16.4"],
    }


async def test_a_renamed_disease_is_found_by_its_other_handle() -> None:
    """First the identifier, then the name; a slash in it stays within its part of the path."""
    node = Node(node_id="Disease::OLD:1", kind="Disease", name="acute/chronic disease", identifier="OLD:1")
    async with _Asked(lambda seen: _json(SPOKE if "/name/" in seen.path else [])) as asked:
        found = await asked.ask(node)
        assert found.node.identifier == "DOID:14330"
        assert [path.rpartition("/Disease/")[2] for path in asked.paths[1:]] == [
            "identifier/OLD%3A1",
            "name/acute%2Fchronic%20disease",
        ]


@pytest.mark.parametrize("empty", [_json([]), Answer(status=404, body=b"not found")])
async def test_an_unknown_disease_is_said_at_once_and_not_asked_for_again(empty: Answer) -> None:
    """Two requests, no retries, then none."""
    async with _Asked(lambda _: empty) as asked:
        for _ in range(3):
            with pytest.raises(GraphError, match="Parkinson", check=GRAPH_NODE_UNKNOWN.is_of):
                await asked.ask()
        assert len(asked.paths) == 3
        assert asked.slept == []


async def test_the_list_of_types_is_asked_for_once() -> None:
    """Not at every question."""
    async with _Asked(lambda _: _json(SPOKE)) as asked:
        await asked.ask()
        await asked.ask()
        assert len([path for path in asked.paths if path.endswith("/types")]) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_failing_server_is_asked_a_bounded_number_of_times(status: int) -> None:
    """Once more, then it is unavailable, which may pass."""
    async with _Asked(lambda _: Answer(status=status, body=b"<html>oops</html>")) as asked:
        with pytest.raises(GraphError, match=str(status), check=GRAPH_SOURCE_UNAVAILABLE.is_of) as fault:
            await asked.ask()
        assert fault.value.retryable
        assert len(asked.paths) == 3
        assert len(asked.slept) == 1
        assert [told.attempt for told in asked.told] == [1, 1, 2]


async def test_a_silent_server_is_given_up() -> None:
    """And so is one that hangs up."""
    async with _Asked(lambda _: Answer(hang=True), timeout_s=0.2) as asked:
        with pytest.raises(GraphError, match="in time", check=GRAPH_SOURCE_UNAVAILABLE.is_of):
            await asked.ask()
    async with _Asked(lambda _: Answer(drop=True)) as asked:
        with pytest.raises(GraphError, match="at all", check=GRAPH_SOURCE_UNAVAILABLE.is_of):
            await asked.ask()


_WHOLE = json.dumps(SPOKE).encode()
_HTML = Answer(body=b"<html>Maintenance</html>", headers={"Content-Type": "text/html; charset=utf-8"})


@pytest.mark.parametrize(
    "answer",
    [_HTML, Answer(body=_WHOLE[:-30]), _json({"error": "x"}), _json([1, 2]), _json([{"data": {}}]), Answer(status=302)],
    ids=["html", "cut", "object", "numbers", "no types", "redirect"],
)
async def test_what_is_no_neighbourhood_is_malformed(answer: Answer) -> None:
    """Nothing of it is taken for a fact, and nothing is asked twice."""
    async with _Asked(lambda _: answer) as asked:
        with pytest.raises(GraphError, check=GRAPH_INVALID.is_of):
            await asked.ask()
        assert len(asked.paths) == 2


async def test_a_reply_over_the_limit_is_refused() -> None:
    """However it is announced."""
    async with _Asked(lambda _: Answer(body=b"[", stream_bytes=2**20, announced=-1), max_reply_bytes=2**16) as asked:
        with pytest.raises(GraphError, match="larger", check=GRAPH_INVALID.is_of):
            await asked.ask()


@pytest.mark.parametrize("types", [_HTML, _json([]), _json({"nodes": {}, "edges": {}}), Answer(status=404)])
async def test_a_strange_list_of_types_is_malformed(types: Answer) -> None:
    """The neighbourhood is not asked for with guesses."""
    async with _Asked(lambda _: _json(SPOKE), types=types) as asked:
        with pytest.raises(GraphError, check=GRAPH_INVALID.is_of):
            await asked.ask()
        assert len(asked.paths) == 1


async def test_a_kind_that_spoke_does_not_have_is_not_asked_for() -> None:
    """Only the list of types is."""
    async with _Asked(lambda _: _json(SPOKE)) as asked:
        with pytest.raises(GraphError, match="kind", check=GRAPH_NODE_UNKNOWN.is_of):
            await asked.ask(Node(node_id="Planet::1", kind="Planet", name="Mars", identifier="1"))
        assert len(asked.paths) == 1


async def test_a_reply_with_one_bad_item_is_not_complete() -> None:
    """The rest is used, and the gap is said."""
    async with _Asked(lambda _: _json([*SPOKE, {"data": {"id": 99, "neo4j_type": "Gene"}}])) as asked:
        found = await asked.ask()
    assert len(found.statements) == 3
    assert not found.complete


@pytest.mark.shared_data
@needs_data
async def test_a_recorded_reply_becomes_all_its_statements() -> None:
    """Parkinson's disease: 61 drugs and 46 genes among 113 edges."""
    reply = gzip.decompress((DATA / "spoke_neighborhood_parkinsons.json.gz").read_bytes())
    types = (DATA / "spoke_types_reply.json").read_bytes()
    async with _Asked(lambda _: Answer(body=reply), types=Answer(body=types)) as asked:
        found = await asked.ask()
        assert len(parse_qs(urlsplit(asked.told[1].url).query)["edge_filters"]) == 95
    kinds = [statement.edge.kind for statement in found.statements]
    assert (len(kinds), kinds.count("TREATS_CtD"), kinds.count("ASSOCIATES_DaG")) == (113, 61, 46)
    assert found.complete
