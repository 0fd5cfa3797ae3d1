"""The graph that answers: this machine's, and SPOKE where it is named and the mode of the answer lets it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parents[2] / "data"))
from ncbi_server import Answer, NcbiServer, Seen

from retrieval.errors import NcbiRefusedByEgress
from retrieval.graph.errors import GraphSourceUnavailable
from retrieval.graph.spoke import SpokeOptions, SpokeSource
from retrieval.graph.types import Node
from retrieval.ncbi.transport import HttpSender, SendLimits
from server.audit import AuditLog
from server.auditor import Auditor
from server.egress import Egress
from server.egress_places import Places
from server.egress_policy import EgressPolicy
from server.egress_settings import EgressMode, EgressSettings
from server.encoder_pool import EncoderPool
from server.errors import EgressRaised
from server.graph_service import AnswerGraph, GraphPlace, GraphService, Spoke
from server.methods.base import Ask, Message
from server.retrieval_settings import RetrievalSettings

HOST = "spoke.example"
NEW = Node(node_id="Disease::DOID:1", kind="Disease", name="newly named disease", identifier="DOID:1")
TYPES = {"nodes": {"Disease": False, "Compound": False}, "edges": {"TREATS_CtD": False}}


def _spoke_says(seen: Seen) -> Answer:
    """One compound for whatever disease is asked for."""
    if "/types" in seen.path:
        return Answer(body=json.dumps(TYPES | {"node_cutoffs": {}, "edge_cutoffs": {}}).encode())
    parkinson = "14330" in seen.path
    disease = {"name": "Parkinson's disease", "identifier": "DOID:14330"} if parkinson else {
        "name": NEW.name, "identifier": NEW.identifier,
    }  # fmt: skip
    compound = {"name": "Levodopa", "identifier": "inchikey:WTDRDQBEARUVNC"}
    reply = [
        {"data": {"id": 1, "neo4j_type": "Disease", "neo4j_root": 1, "properties": disease}},
        {"data": {"id": 2, "neo4j_type": "Compound", "properties": compound}},
        {
            "data": {
                "id": 3,
                "source": 2,
                "target": 1,
                "neo4j_type": "TREATS_CtD",
                "properties": {"source": "X"},
            }
        },
    ]
    return Answer(body=json.dumps(reply).encode())


class World:
    """A sample graph, a SPOKE that is said to be elsewhere, and an audit log."""

    def __init__(self, tmp_path: Path, server: NcbiServer, sender: HttpSender, **settings: Any) -> None:
        self.log = tmp_path / "audit.jsonl"
        self.server = server
        self.dead = asyncio.Event()
        self.pool = EncoderPool(RetrievalSettings(encoder="hashing"))
        self.auditor = Auditor(AuditLog(self.log, level="request", max_bytes=10**6), "refuse")
        policy = EgressPolicy.of(EgressSettings(**({"mode": "ncbi"} | settings)))
        self.egress = Egress(policy, Places(None, None, None), self.auditor)  # type: ignore[arg-type]  # no NCBI here

        async def unheard(_: object) -> None:
            raise AssertionError("asked outside an answer")

        options = SpokeOptions(url=server.url, retries=0, limits=SendLimits(timeout_s=5.0))
        self.spoke = Spoke(SpokeSource(options, sender, unheard), HOST, is_here=False)
        self.service = GraphService(
            GraphPlace(tmp_path / "graphs", "sample", "hashing"), self.pool, self.egress, self.spoke
        )

    def open(self, mode: EgressMode | None = None) -> AnswerGraph:
        return self.service.open(Ask(request_id="r", messages=(Message("user", "x"),)), mode)

    async def parkinson(self) -> Node:
        (mention,) = (await self.service.link("Which compounds treat Parkinson disease?")).mentions
        return mention.node

    def lines(self) -> list[dict[str, Any]]:
        """Of the audit log, but for the one that opens it."""
        return [json.loads(line) for line in self.log.read_text().splitlines()][1:] if self.log.exists() else []


@pytest_asyncio.fixture
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    sender = HttpSender(SendLimits())
    dead = asyncio.Event()
    async with NcbiServer(lambda seen: Answer(status=503) if dead.is_set() else _spoke_says(seen)) as server:
        made = World(tmp_path, server, sender, **getattr(request, "param", {}))
        made.dead = dead
        yield made
        await made.service.close()
        await made.auditor.close()
        await made.pool.close()
        await sender.close()


async def test_spoke_answers_and_each_request_is_on_the_log_before(world: World) -> None:
    """With its host, the classes of its values, and the node; the answer's record says that it left."""
    node = await world.parkinson()
    found = await world.open("ncbi").neighbourhood(node)

    assert (found.graph, [s.edge.kind for s in found.statements]) == ("SPOKE", ["TREATS_CtD"])
    assert [line["endpoint"] for line in world.lines()] == ["spoke_types", "spoke_neighbourhood"]
    assert world.lines()[1]["classes"] == ["id", "term"]
    assert HOST in world.egress.left_by("r")


async def test_with_mode_off_only_this_machine_is_asked(world: World) -> None:
    """A request can lower the mode of its key."""
    graph = world.open("off")
    found = await graph.neighbourhood(await world.parkinson())
    assert (found.graph, graph.name, world.server.seen, world.lines()) == ("sample", "sample", [], [])
    assert found.statements
    assert "no data left" in world.egress.left_by("r")


async def test_local_first_asks_spoke_for_what_is_not_here(world: World) -> None:
    """And for nothing else."""
    graph = world.open("local-first")
    assert (await graph.neighbourhood(await world.parkinson())).graph == "sample"
    assert world.server.seen == []
    assert (await graph.neighbourhood(NEW)).graph == "SPOKE"


@pytest.mark.parametrize("world", [{"allow": ("symbol",)}], indirect=True)
async def test_names_that_may_not_leave_stay(world: World) -> None:
    """The graph here answers; where it has nothing, the refusal is the answer."""
    assert (await world.open("ncbi").neighbourhood(await world.parkinson())).graph == "sample"
    with pytest.raises(NcbiRefusedByEgress, match="id, term may not leave"):
        await world.open("ncbi").neighbourhood(NEW)
    refused = [line for line in world.lines() if line["event"] == "refused"]
    assert len(refused) == 2 and not [seen for seen in world.server.seen if "neighborhood" in seen.path]


async def test_a_dead_spoke_leaves_the_graph_here(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so; a node that is not here is an error."""
    world.dead.set()
    assert (await world.open("ncbi").neighbourhood(await world.parkinson())).graph == "sample"
    assert "SPOKE not used" in caplog.text
    with pytest.raises(GraphSourceUnavailable):
        await world.open("ncbi").neighbourhood(NEW)


@pytest.mark.parametrize("world", [{"mode": "off"}], indirect=True)
async def test_a_request_cannot_raise_the_mode(world: World) -> None:
    """The error names the option."""
    with pytest.raises(EgressRaised, match=r"arrowhead\.egress"):
        world.open("ncbi")


async def test_statements_from_elsewhere_get_their_vectors_in_place(world: World) -> None:
    """Two answers at once open the graph once, and share what is known of SPOKE."""
    node = await world.parkinson()
    graphs = [world.open("ncbi") for _ in range(2)]
    found = await asyncio.gather(*(graph.neighbourhood(node) for graph in graphs))
    vectors = await graphs[0].vectors(found[0].statements)
    assert vectors.shape == (1, (await graphs[0].encode("x")).shape[0])
    assert sum("/types" in seen.path for seen in world.server.seen) == 1
