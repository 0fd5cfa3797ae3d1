"""One engine behind the stand-ins of all tests of a module, since its weights take a moment to load."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from replica_server import Behaviour, Replica

from models.card import ModelCard
from models.engines.base import Engine, EngineOptions, RemoteOptions
from models.engines.remote_engine.engine import RemoteEngine
from models.engines.transformers_engine.engine import TransformersEngine

CONTEXT = 512
Start = Callable[..., Awaitable[Replica]]
Connect = Callable[..., Awaitable[RemoteEngine]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def inner(tiny_llama: Path) -> AsyncIterator[Engine]:
    card = ModelCard(name="tiny", source=str(tiny_llama), context_length=CONTEXT)
    engine = TransformersEngine(card, EngineOptions(dtype="float32", device="cpu", max_num_seqs=4))
    await engine.start()
    yield engine
    await engine.close()


@pytest.fixture(scope="session")
def vocabulary(tiny_llama: Path) -> int:
    size: int = json.loads((tiny_llama / "config.json").read_text())["vocab_size"]
    return size


@pytest_asyncio.fixture(loop_scope="module")
async def start(inner: Engine, vocabulary: int) -> AsyncIterator[Start]:
    """Start stand-ins that stop at the test's end."""
    async with AsyncExitStack() as stack:

        async def started(**behaviour: object) -> Replica:
            given = {"vocabulary": vocabulary, **behaviour}
            replica = await Replica(inner, Behaviour(**given)).start()  # type: ignore[arg-type]  # names of its fields
            stack.push_async_callback(replica.stop)
            return replica

        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def connect(tiny_llama: Path) -> AsyncIterator[Connect]:
    """Start remote engines that close at the test's end."""
    async with AsyncExitStack() as stack:

        async def connected(replica: Replica, **options: object) -> RemoteEngine:
            times = {"probe_every_s": 0.1, "probe_timeout_s": 10.0, "wait_s": 5.0, "start_s": 5.0, "silence_s": 20.0}
            remote = RemoteOptions(url=replica.url, **{**times, **options})  # type: ignore[arg-type]
            card = ModelCard(name="tiny", source=str(tiny_llama), context_length=CONTEXT)
            engine = RemoteEngine(card, EngineOptions(max_num_seqs=4, max_queue=4, remote=remote))
            stack.push_async_callback(engine.close)
            await engine.start()
            return engine

        yield connected
