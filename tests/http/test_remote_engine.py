"""A server whose tokens are made by a replica: methods, the plain model, and a replica that dies under a stream."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from replica_server import Behaviour, Replica
from starlette.responses import JSONResponse

from models.catalog import EMBEDDED_DIR, ModelRequest, card_from_request, has_weights
from models.engines.base import EngineOptions
from models.engines.transformers_engine.engine import TransformersEngine

pytestmark = [
    pytest.mark.skipif(not has_weights(EMBEDDED_DIR), reason="the embedded model's weights are not in this checkout")
]
QUESTION = "What is the official gene symbol of LMP10?"
NAME = "arrowhead-tiny"


@dataclass(frozen=True, slots=True)
class Running:
    """A replica on an event loop of its own."""

    loop: asyncio.AbstractEventLoop
    replica: Replica

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    inner = TransformersEngine(card_from_request(ModelRequest(source=str(EMBEDDED_DIR))), EngineOptions(device="cpu"))
    vocabulary = json.loads((EMBEDDED_DIR / "config.json").read_text())["vocab_size"]
    plain = {"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}

    async def started() -> Replica:
        await inner.start()
        behaviour = Behaviour(model=NAME, vocabulary=vocabulary, plain=lambda _: JSONResponse(plain))
        return await Replica(inner, behaviour).start()

    made = Running(loop, asyncio.run_coroutine_threadsafe(started(), loop).result(120))
    yield made
    made.do(made.replica.stop())
    made.do(inner.close())
    loop.call_soon_threadsafe(loop.stop)
    thread.join(120)


@pytest.fixture(scope="module")
def url(running: Running, serve_with: Callable[..., AbstractContextManager[Any]]) -> Iterator[str]:
    settings = {
        "ARROWHEAD_MODEL__ENGINE": "remote",
        "ARROWHEAD_MODEL__SCRIPT": None,
        "ARROWHEAD_MODEL__URL": running.replica.url,
        "ARROWHEAD_NCBI__EUTILS_URL": None,
        "ARROWHEAD_NCBI__BLAST_URL": None,
    }
    with serve_with(settings, "--model", NAME, "--log-level", "INFO") as server:
        yield server.url
        assert "LMP10" not in server.log()


def answer(url: str, model: str = f"{NAME}:genegpt") -> str:
    body = {"model": model, "messages": [{"role": "user", "content": QUESTION}]}
    reply = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=120)
    assert reply.status_code == 200, reply.text
    content: str = reply.json()["choices"][0]["message"]["content"]
    return content


def test_a_method_looks_up_and_answers(url: str, running: Running) -> None:
    """With its calls in mid-sentence; all requests of the answer had one session."""
    running.replica.sessions.clear()
    assert answer(url).startswith("PSMB10")
    sessions = [session for session in running.replica.sessions if session]
    assert len(sessions) >= 2
    assert len(set(sessions)) == 1


def test_an_answer_survives_its_replica(url: str, running: Running) -> None:
    """The same text where the stream breaks in mid-answer and another replica is there, as behind a router."""
    whole = answer(url)
    running.replica.behaviour.cut_once = running.replica._sent + 15
    assert answer(url) == whole
    assert running.replica.behaviour.cut_once is None


def test_the_plain_model_is_the_replicas_own_layer(url: str) -> None:
    """Its completions, as the embedded model has no chat template; the server says which engine it has."""
    body = {"model": NAME, "prompt": "Once upon", "max_tokens": 1}
    assert httpx.post(f"{url}/v1/completions", json=body, timeout=60).json()["id"] == "chatcmpl-1"
    assert 'engine="remote"' in httpx.get(f"{url}/metrics", timeout=60).text
