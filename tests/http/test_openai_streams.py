"""Streams over time: clients that leave, limits, loading, the end of the process."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import openai
import pytest
from bare_services import bare_services
from simulated_card import card_without_room

from models.card import ModelCard
from models.engines.base import Engine
from models.errors import ModelNotFound
from retrieval.index.backends.base import SegmentVectors
from server.app import create_app
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Event
from server.methods.direct import Direct
from server.settings.schema import Settings
from server.wiring.services import Services


def _post(url: str, question: str, *, stream: bool, path: str = "chat/completions") -> socket.socket:
    """Send a request and leave the reply unread."""
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    name = "input" if path == "responses" else "messages"
    body = json.dumps(
        {"model": "scripted:genegpt", "stream": stream, name: [{"role": "user", "content": question}]}
    ).encode()
    connection = socket.create_connection((parts.hostname, parts.port), timeout=120)
    head = f"POST /v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return connection


def _in_flight(url: str) -> int:
    with urllib.request.urlopen(f"{url}/ready", timeout=120) as reply:
        return int(json.load(reply)["in_flight"])


def _wait_for(url: str, number: int) -> int:
    """Requests in flight, once they are ``number`` or two minutes have passed."""
    deadline = time.monotonic() + 120
    while (found := _in_flight(url)) != number and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("path", ["chat/completions", "responses"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_ends_its_answer(running: Any, stream: bool, path: str) -> None:
    """The pending call of an answer nobody waits for is dropped, and its place is free again."""
    assert _wait_for(running.url, 0) == 0
    connection = _post(running.url, "dead", stream=stream, path=path)
    assert _wait_for(running.url, 1) == 1

    connection.close()

    assert _wait_for(running.url, 0) == 0


def test_a_full_server_says_so(running: Any) -> None:
    """Beyond max_in_flight: 429 with Retry-After."""
    assert _wait_for(running.url, 0) == 0
    connections = [_post(running.url, "dead", stream=True) for _ in range(16)]
    try:
        assert _wait_for(running.url, 16) == 16
        with running.client() as client, pytest.raises(openai.RateLimitError) as refused:
            client.chat.completions.create(model="scripted:genegpt", messages=[{"role": "user", "content": "broken"}])
    finally:
        for connection in connections:
            connection.close()

    assert refused.value.code == "server_overloaded"
    assert int(refused.value.response.headers["retry-after"]) > 0
    assert _wait_for(running.url, 0) == 0


def test_a_signal_ends_the_process(serve_with: Any) -> None:
    """SIGTERM without requests in flight: it ends soon and leaves no traceback."""
    with serve_with({}) as server:
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(120)

        assert "Traceback" not in server.log()


def test_a_taken_port_is_named(serve_with: Any, running: Any) -> None:
    """Exit status 2, the variable, no traceback."""
    with pytest.raises(AssertionError) as ended, serve_with({}, "--port", str(urlsplit(running.url).port)):
        pass

    assert "ARROWHEAD_SERVER__PORT" in str(ended.value)
    assert "Traceback" not in str(ended.value)


def test_traces_go_to_disk_where_asked(host_with: Any, tmp_path: Path) -> None:
    """One JSON line an answer, readable by the owner alone."""
    with host_with({"ARROWHEAD_TRACES__DIR": str(tmp_path / "t")}) as server, server.client() as client:
        client.chat.completions.create(model="scripted:genegpt", messages=[{"role": "user", "content": "broken"}])

    file = tmp_path / "t" / "traces.jsonl"
    (line,) = file.read_text().splitlines()
    assert json.loads(line)["choices"][0]["answer"] == "not found"
    assert file.stat().st_mode & 0o077 == 0


class _Broken(Direct):
    """A method that fails with an exception nobody foresaw, quoting the question."""

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        raise RuntimeError(f"cannot answer {ask.question}")
        yield


def _services(build: threading.Event, failure: Exception | None = None) -> Services:
    card = ModelCard(name="slow", source=".")

    def load() -> Engine:
        build.wait(30)
        if failure is not None:
            raise failure
        from models.engines.base import EngineOptions
        from models.engines.scripted_engine import Rule, ScriptedEngine

        return ScriptedEngine(card, EngineOptions(), [Rule("", "hi")])

    lifecycle = EngineLifecycle(card, load)
    methods = {"direct": Direct(lifecycle), "broken": _Broken(lifecycle)}
    return bare_services(Settings(), lifecycle, Path("nowhere"), methods=methods)


def _http(services: Services) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=create_app(services))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")


CHAT = {"model": "slow", "messages": [{"role": "user", "content": "canary-question"}]}


async def test_while_the_model_loads_answers_are_503() -> None:
    """503 with Retry-After from the routes and /ready, 200 from /health; 200 everywhere once it is loaded."""
    build = threading.Event()
    services = _services(build)
    services.start()
    async with _http(services) as client:
        early = await client.post("/v1/chat/completions", json=CHAT)
        assert (early.status_code, early.json()["error"]["code"]) == (503, "model_not_ready")
        assert "retry-after" in early.headers
        ready = await client.get("/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "loading")
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/v1/models")).json()["data"][0]["ready"] is False
        build.set()
        await services.loaded()
        assert (await client.get("/ready")).json()["status"] == "ready"
        assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 200
    await services.close()


async def test_ready_says_what_a_card_has_no_room_for() -> None:
    """And nothing of vectors where there is no card."""
    services = _services(threading.Event())
    card = card_without_room()
    segment = card.open(SegmentVectors(kind="flat", metric="l2", vectors=np.zeros((9, 4), np.float16)))
    async with _http(services) as client:
        assert "vectors" not in (await client.get("/ready")).json()
        services.retrieval = replace(services.retrieval, card=card)
        line = (await client.get("/ready")).json()["vectors"]
    assert segment.exact and "1 (0.00 GiB) on the processor, as the card has no room" in line
    await services.close()


async def test_a_model_that_cannot_be_loaded_stays_503() -> None:
    """The reason is named by kind; paths of this machine stay out of the reply."""
    build = threading.Event()
    build.set()
    services = _services(build, ModelNotFound("/secret/path is missing"))
    services.start()
    await services.loaded()
    async with _http(services) as client:
        replies = [await client.get("/ready"), await client.post("/v1/chat/completions", json=CHAT)]
    await services.close()

    assert [reply.status_code for reply in replies] == [503, 503]
    assert replies[0].json()["reason"] == "ModelNotFound"
    assert not any("/secret" in reply.text for reply in replies)


async def test_an_unforeseen_failure_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """500 without the exception's text, which quotes the question; the log has the place, not the text."""
    build = threading.Event()
    build.set()
    services = _services(build)
    services.start()
    await services.loaded()
    async with _http(services) as client:
        reply = await client.post("/v1/chat/completions", json=CHAT | {"model": "slow:broken"})
        stream = await client.post("/v1/chat/completions", json=CHAT | {"model": "slow:broken", "stream": True})
    await services.close()

    assert [reply.status_code, stream.status_code] == [500, 500]
    # The handlers leave the texts of exceptions out (test_observer.py); caplog's own does not.
    written = "\n".join(record.getMessage() for record in caplog.records)
    assert "canary-question" not in reply.text + stream.text + written
    assert "RuntimeError" in written


async def test_closing_while_loading_ends_cleanly() -> None:
    """A server stopped during start-up does not hang."""
    services = _services(threading.Event())
    services.start()
    await asyncio.sleep(0)

    async with asyncio.timeout(120):
        await services.close()

    assert services.lifecycle.state == "closed"
