"""How a server process ends: nothing that it took is left without an end."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from http_calls import Site

from scripts.benchmarks.serving.streams import Target

Serve = Callable[..., AbstractContextManager[Any]]
LONG, SHORT = " word" * 400, " a few words"
RULES = [{"suffix": "Question: long\nAnswer:", "text": LONG}, {"suffix": "Question: short\nAnswer:", "text": SHORT}]


def _chat(question: str, **fields: Any) -> dict[str, Any]:
    return {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": question}], **fields}


def _settings(folder: Path, **server: str) -> dict[str, str]:
    script = folder / "script.json"
    script.write_text(json.dumps({"rules": RULES, "behaviour": {"token_delay_s": 0.05}}))
    named = {f"ARROWHEAD_SERVER__{name.upper()}": value for name, value in server.items()}
    return {"ARROWHEAD_MODEL__SCRIPT": str(script), **named}


def _ready(url: str) -> tuple[int, dict[str, Any]]:
    return Site(url).call("GET", "/ready")


async def _until(url: str, name: str, value: Any) -> None:
    for _ in range(12_000):
        if (await asyncio.to_thread(_ready, url))[1][name] == value:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"never {name}={value}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_every_stream_gets_an_end(serve_with: Serve, tmp_path: Path, number: signal.Signals) -> None:
    """Ten short answers are finished, ten long ones and one that is no stream end with an error; exit status 0."""
    with serve_with(_settings(tmp_path, shutdown_grace_s="3", max_in_flight="21")) as server:
        target = Target(server.url)
        questions = [_chat("short")] * 10 + [_chat("long")] * 10 + [_chat("long", stream=False)]
        asking = [asyncio.create_task(target.ask(question)) for question in questions]
        await _until(server.url, "in_flight", 21)
        server.process.send_signal(number)
        outcomes = await asyncio.gather(*asking)
        status = await asyncio.to_thread(server.process.wait, 20)
        log = server.log()

    finished, ended, plain = outcomes[:10], outcomes[10:20], outcomes[20]
    assert all((one.text, one.done, one.error) == (SHORT.lstrip(), True, "") for one in finished)
    assert all((one.status, one.done, one.error) == (200, True, "server_stopping") for one in ended)
    assert all(one.text and LONG.lstrip().startswith(one.text) for one in ended)
    assert (plain.status, plain.error) == (503, "server_stopping")
    assert (status, "Traceback" in log) == (0, False)


async def test_new_requests_are_told_where_to_go_meanwhile(serve_with: Serve, tmp_path: Path) -> None:
    """For a while /ready says that it drains, and answers are 503 on a connection that closes."""
    with serve_with(_settings(tmp_path, shutdown_grace_s="1", drain_notice_s="4")) as server:
        target = Target(server.url)
        running = asyncio.create_task(target.ask(_chat("long")))
        await _until(server.url, "in_flight", 1)
        server.process.send_signal(signal.SIGTERM)
        await _until(server.url, "status", "draining")
        status, ready = await asyncio.to_thread(_ready, server.url)
        refused = await target.ask(_chat("short"))
        ended = await running

    assert (status, ready["since"] > 0) == (503, True)
    assert (refused.status, refused.error) == (503, "server_stopping")
    assert (refused.headers["connection"], int(refused.headers["retry-after"]) > 0) == ("close", True)
    assert (ended.done, ended.error) == (True, "server_stopping")


async def test_a_second_signal_ends_at_once(serve_with: Serve, tmp_path: Path) -> None:
    """However long the grace: streams get their last chunk, or a status where they had none."""
    with serve_with(_settings(tmp_path, shutdown_grace_s="600")) as server:
        running = asyncio.create_task(Target(server.url).ask(_chat("long")))
        await _until(server.url, "in_flight", 1)
        server.process.send_signal(signal.SIGTERM)
        await _until_log(server, "draining")
        server.process.send_signal(signal.SIGTERM)
        outcome = await running
        status = await asyncio.to_thread(server.process.wait, 20)

    assert outcome.error == "server_stopping"
    assert outcome.done or outcome.status == 503
    assert status in (0, 128 + signal.SIGTERM)


async def _until_log(server: Any, text: str) -> None:
    for _ in range(12_000):
        if text in server.log():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(server.log())
