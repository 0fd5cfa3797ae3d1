"""The graph that answers: this machine's, and SPOKE where it is named and the mode of the answer lets it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack

import pytest
import pytest_asyncio
from graph_files import SMALL, build_small_graph
from ncbi_server import Answer, NcbiServer, Seen
from shipped_data import give_graph

from models.encoders.hashing import HashingEncoder
from retrieval.errors import EGRESS_REFUSED, GRAPH_INVALID, GRAPH_SOURCE_UNAVAILABLE, GraphError, NcbiError
from retrieval.graph.spoke.source import SpokeOptions, SpokeSource
from retrieval.graph.store.catalog import SHIPPED
from retrieval.graph.types import Node
from retrieval.ncbi.client.transport import HttpSender, SendLimits
from retrieval.observer import NullObserver, PartName, SpanAttributes, TraceSpan
from retrieval.storage.files import build_lock
from server.audit.log import AuditLog, AuditRecorder
from server.egress.policy import EgressPolicy
from server.egress.router import Destinations, Egress
from server.errors import EgressRaised
from server.evidence.encoders import EncoderPool
from server.evidence.graph import AnswerGraph, GraphLocation, GraphService, Spoke
from server.methods.base import AnswerRequest, Message
from server.settings.egress import EgressSettings
from server.settings.retrieval import RetrievalSettings
from server.types import EgressMode

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
        {"data": {"id": 3, "source": 2, "target": 1, "neo4j_type": "TREATS_CtD", "properties": {"source": "X"}}},
    ]
    return Answer(body=json.dumps(reply).encode())


class World:
    """A small graph, a SPOKE that is said to be elsewhere, and an audit log."""

    def __init__(self, tmp_path: Path, server: NcbiServer, sender: HttpSender, **settings: Any) -> None:
        timeout_s, max_reply_bytes = settings.pop("timeout_s", 5.0), settings.pop("max_reply_bytes", 10**6)
        self.log = tmp_path / "audit.jsonl"
        self.server = server
        self.dead = self.hanging = self.asked = asyncio.Event()
        self.pool = EncoderPool(RetrievalSettings(encoders=("hashing",)))
        self.auditor = AuditRecorder(AuditLog(self.log, level="request", max_bytes=10**6), "refuse")
        policy = EgressPolicy.of(EgressSettings(**({"mode": "ncbi"} | settings)))
        self.egress = Egress(policy, Destinations(None, None, None), self.auditor)  # type: ignore[arg-type]  # no NCBI here

        async def unheard(_: object) -> None:
            raise AssertionError("asked outside an answer")

        limits = SendLimits(timeout_s=timeout_s, max_reply_bytes=max_reply_bytes)
        options = SpokeOptions(url=server.url, retries=0, limits=limits)
        self.spoke = Spoke(SpokeSource(options, sender, unheard), HOST, is_here=False)
        give_graph(tmp_path / "graphs")
        build_small_graph(tmp_path / "graphs", HashingEncoder()).close()
        self.service = GraphService(
            GraphLocation(tmp_path / "graphs", SMALL, "hashing"), self.pool, self.egress, self.spoke
        )

    def open(self, mode: EgressMode | None = None) -> AnswerGraph:
        return self.service.open(AnswerRequest(request_id="r", messages=(Message("user", "x"),)), mode)

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
    hanging, asked = asyncio.Event(), asyncio.Event()

    def answer(seen: Seen) -> Answer:
        if "/types" not in seen.path and hanging.is_set():
            asked.set()
            return Answer(hang=True)
        return Answer(status=503) if dead.is_set() else _spoke_says(seen)

    async with NcbiServer(answer) as server:
        made = World(tmp_path, server, sender, **getattr(request, "param", {}))
        made.dead, made.hanging, made.asked = dead, hanging, asked
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
    sent = [line for line in world.lines() if line["event"] == "send"]
    assert [line["endpoint"] for line in sent] == ["spoke_types", "spoke_neighbourhood"]
    assert sent[1]["classes"] == ["id", "term"]
    assert HOST in world.egress.departures_of("r")


class _Kept(NullObserver):
    """Keeps what is told of parts."""

    def __init__(self) -> None:
        self.told: list[tuple[str, SpanAttributes]] = []

    @contextmanager
    def part(self, name: PartName, **facts: Unpack[SpanAttributes]) -> Iterator[TraceSpan]:
        self.told.append((name, facts))

        class Open:
            def annotate(self, **more: Unpack[SpanAttributes]) -> None:
                facts.update(more)

            def failed(self, kind: str) -> None:
                raise AssertionError("an error is seen without being told")

        yield Open()


async def test_a_lookup_tells_whose_statements_it_found(world: World) -> None:
    """And how many; no node, no host."""
    world.service.parts = kept = _Kept()
    node = await world.parkinson()
    await world.open("ncbi").neighbourhood(node)
    here = await world.open("local-first").neighbourhood(node)

    assert kept.told == [
        ("link", {"extraction": "dictionary", "found": 1}),
        ("lookup", {"source": "spoke", "found": 1}),
        ("lookup", {"source": "here", "found": len(here.statements)}),
    ]


def _came_back(world: World, endpoint: str = "spoke_neighbourhood") -> list[tuple[str, int | None]]:
    """Status and bytes of each reply; a line has seconds and none of the reply's content."""
    lines = [line for line in world.lines() if line["event"] == "reply" and line["endpoint"] == endpoint]
    assert all(line["detail"].keys() == {"seconds"} and line["detail"]["seconds"] >= 0 for line in lines)
    assert "Levodopa" not in world.log.read_text()
    return [(line["status"], line["reply_bytes"]) for line in lines]


async def test_each_reply_is_on_the_log_behind_its_request(world: World) -> None:
    """With status, bytes and seconds; request and reply carry the same values."""
    await world.open("ncbi").neighbourhood(await world.parkinson())
    assert [line["event"] for line in world.lines()] == ["send", "reply", "send", "reply"]
    ((status, num_bytes),) = _came_back(world)
    assert status == "200" and num_bytes is not None and num_bytes > 100
    sent, back = world.lines()[2:]
    assert sent["values"] == back["values"] and sent["request_id"] == back["request_id"] == "r"


async def test_an_http_error_is_on_the_log(world: World) -> None:
    """As the status that it is."""
    world.dead.set()
    with pytest.raises(GraphError, check=GRAPH_SOURCE_UNAVAILABLE.is_of):
        await world.open("ncbi").neighbourhood(NEW)
    assert _came_back(world, "spoke_types") == [("503", 0)]


@pytest.mark.parametrize("world", [{"timeout_s": 0.2}], indirect=True)
async def test_a_timeout_is_on_the_log(world: World) -> None:
    """No bytes came."""
    world.hanging.set()
    with pytest.raises(GraphError, check=GRAPH_SOURCE_UNAVAILABLE.is_of):
        await world.open("ncbi").neighbourhood(NEW)
    assert _came_back(world) == [("Timeout", None)]


@pytest.mark.parametrize("world", [{"max_reply_bytes": 200}], indirect=True)
async def test_a_reply_that_is_too_large_is_on_the_log(world: World) -> None:
    """By what is wrong with it."""
    with pytest.raises(GraphError, check=GRAPH_INVALID.is_of):
        await world.open("ncbi").neighbourhood(NEW)
    assert _came_back(world) == [("TooLarge", None)]


async def test_a_request_that_is_given_up_is_on_the_log(world: World) -> None:
    """The client went away while SPOKE thought."""
    world.hanging.set()
    asking = asyncio.create_task(world.open("ncbi").neighbourhood(NEW))
    await world.asked.wait()
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()
    assert _came_back(world) == [("cancelled", None)]


async def test_with_mode_off_only_this_machine_is_asked(world: World) -> None:
    """A request can lower the mode of its key."""
    graph = world.open("off")
    found = await graph.neighbourhood(await world.parkinson())
    assert (found.graph, graph.name, world.server.seen, world.lines()) == ("small", "small", [], [])
    assert found.statements
    assert "no data left" in world.egress.departures_of("r")


async def test_local_first_asks_spoke_for_what_is_not_here(world: World) -> None:
    """And for nothing else."""
    graph = world.open("local-first")
    assert (await graph.neighbourhood(await world.parkinson())).graph == "small"
    assert world.server.seen == []
    assert (await graph.neighbourhood(NEW)).graph == "SPOKE"


@pytest.mark.parametrize("world", [{"allow": ("symbol",)}], indirect=True)
async def test_names_that_may_not_leave_stay(world: World) -> None:
    """The graph here answers; where it has nothing, the refusal is the answer."""
    assert (await world.open("ncbi").neighbourhood(await world.parkinson())).graph == "small"
    with pytest.raises(NcbiError, match="id, term may not leave", check=EGRESS_REFUSED.is_of):
        await world.open("ncbi").neighbourhood(NEW)
    refused = [line for line in world.lines() if line["event"] == "refused"]
    assert len(refused) == 2 and not [seen for seen in world.server.seen if "neighborhood" in seen.path]


async def test_a_dead_spoke_leaves_the_graph_here(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so; a node that is not here is an error."""
    world.dead.set()
    assert (await world.open("ncbi").neighbourhood(await world.parkinson())).graph == "small"
    assert "SPOKE not used" in caplog.text
    with pytest.raises(GraphError, check=GRAPH_SOURCE_UNAVAILABLE.is_of):
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


async def test_a_graph_is_opened_once_though_the_first_asker_goes_away(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Opening takes minutes for a large one; what the first began the second gets."""
    caplog.set_level("INFO", logger="server.evidence.graph")
    first = asyncio.create_task(world.service.opened())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    assert (await world.service.opened()).store.graph == "small"
    assert caplog.text.count("graph ready") == 1


async def test_texts_are_encoded_while_a_graph_is_built(tmp_path: Path) -> None:
    """The one that ships is built from the start on, and not opened where it is here already."""
    pool = EncoderPool(RetrievalSettings(encoders=("hashing",)))
    service = GraphService(GraphLocation(tmp_path, SHIPPED, "hashing"), pool, egress=None)  # type: ignore[arg-type]
    with build_lock(tmp_path / SHIPPED, 60):
        await service.warm_up(None)
        opening = asyncio.create_task(service.opened())
        encoder = await pool.run(lambda: pool.encoder("hashing"))
        assert (await pool.run(lambda: encoder.encode_queries(["x"]))).shape[0] == 1
        assert not opening.done()
        give_graph(tmp_path)
    assert (await opening).store.graph == SHIPPED
    await service.close()
    await service.warm_up(None)
    assert service._opening is None
    await pool.close()


async def test_a_graph_that_could_not_be_opened_is_tried_again(tmp_path: Path) -> None:
    """An import may have been made since."""
    pool = EncoderPool(RetrievalSettings(encoders=("hashing",)))
    service = GraphService(GraphLocation(tmp_path, "own", "hashing"), pool, egress=None)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(GraphError, match="there is no graph 'own'"):
            await service.opened()
    await service.close()
    await pool.close()
