"""A router that hashes the session may stand before the replicas, where its program is installed."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import pytest
from replica_server import Replica

from models.engines.base import Engine
from models.types import GenerateParams
from scripts.benchmarks.serving.vllm_replica import router as router_before
from scripts.served import free_port

from .conftest import Connect, Start

pytestmark = pytest.mark.asyncio(loop_scope="module")
Router = Callable[[Sequence[Replica], Path], AbstractAsyncContextManager[Replica]]
GUIDE = Path(__file__).parents[5] / "docs" / "scale-out.md"
# A program of the virtual environment need not be on the path.
VLLM_ROUTER = shutil.which("vllm-router", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@asynccontextmanager
async def haproxy(replicas: Sequence[Replica], folder: Path) -> AsyncIterator[Replica]:
    with router_before([one.url for one in replicas], folder) as url:
        yield Replica(replicas[0].engine, url=url)


@asynccontextmanager
async def vllm_router(replicas: Sequence[Replica], _: Path) -> AsyncIterator[Replica]:
    """Start it with the options of the guide, but for addresses."""
    (options,) = re.findall(r"^vllm-router (--policy(?:.*\\\n)*.*)$", GUIDE.read_text(), re.MULTILINE)
    words = options.replace("\\\n", " ").split()
    known = words[: words.index("--worker-urls")]
    port, addresses = free_port(), [one.url for one in replicas]
    command = [VLLM_ROUTER or "", *known, "--host", "127.0.0.1", "--port", str(port)]
    async with _running([*command, "--prometheus-port", str(free_port()), "--worker-urls", *addresses]):
        yield Replica(replicas[0].engine, url=f"http://127.0.0.1:{port}")


@asynccontextmanager
async def _running(command: Sequence[str]) -> AsyncIterator[None]:
    null = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=null, stderr=null)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


ROUTERS = [
    pytest.param(
        haproxy,
        id="haproxy",
        marks=pytest.mark.skipif(shutil.which("haproxy") is None, reason="HAProxy is not installed"),
    ),
    pytest.param(
        vllm_router, id="vllm-router", marks=pytest.mark.skipif(VLLM_ROUTER is None, reason="pip install vllm-router")
    ),
]


@pytest.mark.parametrize("router", ROUTERS)
async def test_a_router_keeps_answers_together_and_loses_none(
    router: Router, start: Start, connect: Connect, tmp_path: Path
) -> None:
    """Each answer's requests reach one replica; a stream whose replica dies goes on at the other."""
    replicas = await start(), await start()
    async with router(replicas, tmp_path) as address:
        engine = await connect(address, start_s=30.0, wait_s=30.0)
        for answer in range(8):
            for segment in range(3):
                assert await sampled(engine, f"a{answer}-s{segment}", 1)
        here, there = ([session for session in one.sessions if session] for one in replicas)
        assert set(here).isdisjoint(there)
        assert len(here) + len(there) == 24
        assert here
        assert there
        whole = await sampled(engine, "whole", 60)
        for number, one in enumerate(replicas):
            if number:
                await asyncio.sleep(4)  # until the router has found the other again
            running = asyncio.create_task(sampled(engine, "whole", 60))
            await asyncio.sleep(0.3)
            await one.stop()
            assert await running == whole
            await one.start()


async def sampled(engine: Engine, request_id: str, number: int) -> list[int]:
    params = GenerateParams(max_tokens=number, ignore_eos=True)
    prompt = engine.tokenizer.encode("Question: which gene?")
    return [token async for delta in engine.generate(prompt, params, request_id) for token in delta.token_ids]
