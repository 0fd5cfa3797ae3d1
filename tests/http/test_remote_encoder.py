"""A server whose encoder runs elsewhere, as clients see it: while that server works, is down, and is another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from bert_models import build_sentence_folder
from http_calls import Site
from pooling_server import OPTIONS, Model, PoolingServer, pooling_server

from models.encoders.resolve import resolve_encoder

KEY = "a-key-of-the-encoder"
pytestmark = pytest.mark.server


class Pooling:
    """A pooling server that can go and come back at its address."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._stack = ExitStack()
        self.running = self.start(0)

    def start(self, port: int | None = None) -> PoolingServer:
        if port is None:
            port = int(self.running.url.rpartition(":")[2])
        self.running = self._stack.enter_context(pooling_server(self._model, port))
        self.running.failing.key = KEY
        return self.running

    def stop(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_sentence_folder(tmp_path_factory.mktemp("encoders") / "small")


@pytest.fixture(scope="module")
def pooling(encoder: Path) -> Iterator[Pooling]:
    made = Pooling(Model(resolve_encoder(str(encoder), OPTIONS)))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def site(
    host_with: Callable[..., AbstractContextManager[Any]],
    tmp_path_factory: pytest.TempPathFactory,
    pooling: Pooling,
    encoder: Path,
) -> Iterator[Site]:
    settings = {
        "ARROWHEAD_RETRIEVAL__ENCODERS": str(encoder),
        "ARROWHEAD_RETRIEVAL__ENCODER_URLS": f"{encoder}={pooling.running.url}",
        "ARROWHEAD_RETRIEVAL__ENCODER_API_KEY": KEY,
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path_factory.mktemp("corpora")),
        "ARROWHEAD_SERVER__MAX_IN_FLIGHT": "64",
    }
    with host_with(settings) as running:
        yield Site(running.url)


def test_a_namespace_with_token_vectors_is_refused_before_it_is_made(site: Site) -> None:
    status, reply = site.call("POST", "/v1/namespaces", {"name": "tokens"})

    assert (status, reply["error"]["param"]) == (422, "tokens")
    assert '"tokens": false' in reply["error"]["message"]
    assert site.call("GET", "/v1/namespaces/tokens")[0] == 404


def test_a_job_indexes_at_the_server_and_waits_for_one_that_is_down(site: Site, pooling: Pooling) -> None:
    """Searches by vectors are 503 meanwhile and by words are not; what the failed job stored is indexed by the next."""
    site.create("one", tokens=False)
    site.add("one", {"id": "a", "title": "Aspirin", "text": "Aspirin after infarction."})
    sent = len(pooling.running.bodies)
    assert sent
    body = {"query": "aspirin", "namespaces": ["one"], "retriever": "dense"}
    status, reply = site.call("POST", "/v1/search", body)
    assert (status, [hit["document_id"] for hit in reply["data"]]) == (200, ["a"])
    assert reply["arrowhead"]["missing_stages"] == []
    assert len(pooling.running.bodies) > sent

    url = pooling.running.url
    pooling.stop()
    status, reply = site.call("POST", "/v1/search", body)
    assert (status, reply["error"]["code"]) == (503, "encoder_unavailable")
    assert url in reply["error"]["message"]
    assert site.call("POST", "/v1/search", body | {"retriever": "bm25"})[0] == 200
    added = {"documents": [{"id": "b", "text": "Statins."}]}
    status, reply = site.call("POST", "/v1/namespaces/one/documents?wait=60", added)
    assert (status, reply["error"]["code"]) == (503, "encoder_unavailable")
    assert site.call("GET", "/v1/namespaces/one")[1]["waiting"]["vectors"] == 1

    pooling.start()
    site.add("one", {"id": "c", "text": "Femur."})
    assert site.call("GET", "/v1/namespaces/one")[1]["waiting"]["vectors"] == 0
    assert {hit["document_id"] for hit in site.search(**body)} == {"a", "b", "c"}


def test_a_server_with_other_weights_stores_nothing(site: Site, pooling: Pooling, encoder: Path) -> None:
    """Neither vectors nor passages, and a search is an error of this server, not a wrong answer."""
    site.create("two", tokens=False)
    pooling.running.failing.turned = True
    try:
        body = {"documents": [{"id": "a", "text": "Aspirin."}]}
        status, reply = site.call("POST", "/v1/namespaces/two/documents?wait=60", body)
        assert (status, reply["error"]["code"]) == (503, "model_missing")
        assert "does not compute the vectors" in reply["error"]["message"]
        assert site.call("GET", "/v1/namespaces/two")[1]["documents"] == 0
        status, reply = site.call("POST", "/v1/embeddings", {"model": str(encoder), "input": "aspirin"})
        assert (status, reply["error"]["code"]) == (503, "model_missing")
    finally:
        pooling.running.failing.turned = False
