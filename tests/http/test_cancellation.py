"""Clients that leave free the engine: transformers behind real connections, in this process to look inside."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from bare_services import bare_services
from waiting import until

from models.catalog import ModelRequest, card_from_request
from models.engines.base import EngineOptions
from models.engines.transformers_engine.engine import TransformersEngine
from models.types import EngineStats
from scripts.benchmarks.serving.streams import Target
from server.engine.lifecycle import EngineLifecycle
from server.serving.run import http_config
from server.settings.schema import Settings
from server.wiring.services import Services


@asynccontextmanager
async def _served(model: Path, nowhere: Path) -> AsyncIterator[tuple[Services, str]]:
    # As a model that chats: what it writes does not matter here.
    card = replace(card_from_request(ModelRequest(source=str(model), served_name="small")), trained_for=None)
    lifecycle = EngineLifecycle(card, lambda: TransformersEngine(card, EngineOptions(device="cpu", max_num_seqs=4)))
    services = bare_services(Settings(), lifecycle, nowhere)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(http_config(services))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await until(lambda: server.started)
        await services.loaded()
        yield services, f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


def _stats(services: Services) -> EngineStats:
    return services.lifecycle.get().stats()


async def _until_busy(services: Services, number: int) -> None:
    await until(lambda: services.in_flight == number and _stats(services).running)


async def _until_idle(services: Services) -> None:
    for _ in range(12_000):
        stats = _stats(services)
        if not (services.in_flight or services.admission.waiting or stats.running or stats.waiting):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never idle: {services.in_flight} {stats}")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_engine_slot(
    real_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    """Eight at a time on four slots, four of them waiting in the engine; nothing of them stays: no sequence, no place,
    no task. A whole reply that nobody got has a status that says so."""
    caplog.set_level(logging.INFO, logger="server.middleware")
    body: dict[str, Any] = {"model": "small", "stream": stream, "max_tokens": 1500, "temperature": 1.0}
    body["messages"] = [{"role": "user", "content": "Which gene is it?"}]
    async with _served(real_model, tmp_path) as (services, url):
        await Target(url).ask(body | {"max_tokens": 1})
        await _until_idle(services)
        tasks = len(asyncio.all_tasks())
        for _ in range(3):
            opened = [await Target(url).open(body) for _ in range(8)]
            await _until_busy(services, 8)
            for _, writer in opened:
                writer.transport.abort()
            await _until_idle(services)
        await asyncio.sleep(0)

        assert _stats(services).tokens_generated < 8 * 3 * 1500
        assert len(asyncio.all_tasks()) <= tasks
    left = [one for one in caplog.records if one.name == "server.middleware" and "status=499" in one.getMessage()]
    assert stream or len(left) == 8 * 3
