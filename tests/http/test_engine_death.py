"""A server process whose engine dies: what clients see, and what becomes of the process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from http_calls import Site

from scripts.benchmarks.serving.streams import Target

Serve = Callable[..., AbstractContextManager[Any]]
RULES = [
    {"suffix": "Question: fatal\nAnswer:", "text": " word" * 40},
    {"suffix": "Question: short\nAnswer:", "text": " a few words"},
]


def _chat(question: str, **fields: Any) -> dict[str, Any]:
    return {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": question}], **fields}


def _settings(folder: Path) -> dict[str, str]:
    script = folder / "script.json"
    behaviour = {"token_delay_s": 0.01, "die_after_tokens": 50}
    script.write_text(json.dumps({"rules": RULES, "behaviour": behaviour}))
    return {"ARROWHEAD_MODEL__SCRIPT": str(script)}


async def _until_ready(url: str) -> dict[str, Any]:
    for _ in range(12_000):
        status, body = await asyncio.to_thread(Site(url).call, "GET", "/ready")
        if status == 200:
            return dict(body)
        await asyncio.sleep(0.02)
    raise AssertionError(body)


async def test_a_dead_engine_is_brought_back(serve_with: Serve, tmp_path: Path) -> None:
    """Its answers end with an error, later ones are 503 until the next engine is there; the process lives on."""
    with serve_with(_settings(tmp_path)) as server:
        target = Target(server.url)
        fatal, plain = await asyncio.gather(target.ask(_chat("fatal")), target.ask(_chat("fatal", stream=False)))
        refused = await target.ask(_chat("short"))
        unready = Site(server.url).call("GET", "/ready")
        alive = Site(server.url).call("GET", "/health")
        ready = await _until_ready(server.url)
        again = await target.ask(_chat("short"))

    assert (fatal.done, fatal.error) == (True, "engine_unavailable")
    assert (plain.status, plain.error) == (503, "engine_unavailable")
    assert (refused.status, refused.error) == (503, "engine_unavailable")
    assert int(refused.headers["retry-after"]) >= 1
    assert (unready[0], unready[1]["status"], unready[1]["reason"]) == (503, "restarting", "EngineDied")
    assert (alive, ready["restarts"], again.text) == ((200, {"status": "ok"}), 1, "a few words")


@pytest.mark.long
async def test_an_engine_that_dies_a_fourth_time_ends_the_process(serve_with: Serve, tmp_path: Path) -> None:
    """Status 1: whoever started the process is told to start it anew."""
    with serve_with(_settings(tmp_path)) as server:
        for _ in range(3):
            await Target(server.url).ask(_chat("fatal"))
            await _until_ready(server.url)
        fatal = await Target(server.url).ask(_chat("fatal"))
        status = await asyncio.to_thread(server.process.wait, 30)
        log = server.log()

    assert (fatal.done, fatal.error) == (True, "engine_unavailable")
    assert (status, "engine not restarted" in log, "Traceback" in log) == (1, True, False)
