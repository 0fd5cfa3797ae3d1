"""A graph's store behind a method."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest_asyncio
from gateway_records import make_store
from graph_doubles import PSORIASIS, RARE, STATEMENTS, MemoryGraph

from models.encoders.base import Floats
from retrieval.graph.types import Statement
from server.auth.authentication import OPERATOR
from server.evidence.encoders import EncoderPool
from server.evidence.graph import GraphLocation, GraphService, StoredGraph
from server.methods.base import AnswerRequest, Message
from server.settings.retrieval import RetrievalSettings
from server.settings.schema import Settings
from server.wiring.bootstrap import build_services
from server.wiring.models import with_model


class Store:
    """``GraphStore`` over a graph in memory; ``asked``: the rows of each call."""

    def __init__(self) -> None:
        self._graph = MemoryGraph()
        self.graph, self.release = self._graph.graph, self._graph.release
        self.names, self.node, self.statements = self._graph.names, self._graph.node, self._graph.statements
        self.asked: list[list[int]] = []

    def vectors(self, rows: Sequence[int]) -> Floats:
        self.asked.append(list(rows))
        return self._graph.rows(rows)


@pytest_asyncio.fixture
async def pool() -> AsyncIterator[EncoderPool]:
    made = EncoderPool(RetrievalSettings(encoders=("hashing",)))
    yield made
    await made.close()


async def test_a_neighbourhood_names_its_graph(pool: EncoderPool) -> None:
    """Of a node without edges it is empty, not an error."""
    graph = StoredGraph(Store(), pool, pool.encoder())
    found = await graph.neighbourhood(PSORIASIS)
    assert (found.graph, found.release, len(found.statements)) == ("little graph", "2026-01", 5)
    assert (await graph.neighbourhood(RARE)).statements == ()


async def test_vectors_come_from_the_store_or_are_made_in_place(pool: EncoderPool) -> None:
    """In the order of the statements; only those without a row are encoded."""
    store = Store()
    graph = StoredGraph(store, pool, pool.encoder())
    known: list[Statement] = list(STATEMENTS[:4])
    kept = await graph.vectors(known)
    mixed = await graph.vectors([replace(s, row=-1) if place % 2 else s for place, s in enumerate(known)])
    assert store.asked == [[0, 1, 2, 3], [0, 2]]
    np.testing.assert_allclose(mixed, kept, atol=1e-3)
    assert (await graph.encode("psoriasis")).shape == kept.shape[1:]


async def test_every_server_offers_the_method(tmp_path: Path) -> None:
    """The graph is opened at the first question; one of an encoder that may not be used is refused at the start."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"suffix": "x", "text": "y"}]))
    fields: dict[str, dict[str, str]] = {
        "model": {"engine": "scripted", "script": str(script)},
        # An address of this machine: the built-in gateway, which unpacks its sample, is not needed here.
        "ncbi": {"eutils_url": "http://127.0.0.1:9", "cache_path": str(tmp_path / "cache.sqlite")},
        "audit": {"path": str(tmp_path / "audit.jsonl")},
        "retrieval": {"encoders": "hashing", "data_dir": str(tmp_path / "data")},
        "graph": {"data_dir": str(tmp_path / "graphs")},
    }
    services = build_services(Settings.model_validate(fields))
    assert "scripted:kg-rag" in {served.id for served in services.models(OPERATOR)}
    assert not (tmp_path / "graphs").exists()
    await services.close()
    assert with_model(Settings.model_validate(fields), "scripted:kg-rag")[1] == "scripted:kg-rag"


async def test_retractions_are_looked_up_on_this_machine(tmp_path: Path) -> None:
    """In the gateway's records, whatever mode the answer has; one without a record is not among them."""
    (tmp_path / "gateway").mkdir(mode=0o700)
    make_store(tmp_path / "gateway").close()
    fields: dict[str, dict[str, Any]] = {
        "ncbi": {"email": "lab@example.org", "cache_path": str(tmp_path / "cache.sqlite")},
        "audit": {"path": str(tmp_path / "audit.jsonl")},
        "egress": {"mode": "ncbi"},
        "gateway": {"data_dir": str(tmp_path / "gateway")},
        "retrieval": {"encoders": "hashing", "data_dir": str(tmp_path / "data")},
        "graph": {"data_dir": str(tmp_path / "graphs")},
    }
    services = build_services(Settings.model_validate(fields))
    assert services.egress is not None
    pool = EncoderPool(RetrievalSettings(encoders=("hashing",)))
    service = GraphService(GraphLocation(tmp_path / "graphs", "small", "hashing"), pool, services.egress)
    graph = service.open(AnswerRequest(request_id="r", messages=(Message("user", "x"),)), None)
    articles = [str(number) for number in range(10000001, 10000041)]
    assert await graph.retracted(articles) == {"10000002"}
    await pool.close()
    await services.close()
