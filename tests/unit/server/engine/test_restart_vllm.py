"""vLLM's engine process killed under the server's slot."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from pathlib import Path

import pytest
from waiting import until

from models.catalog import ModelRequest, card_from_request
from models.engines.base import Engine, EngineOptions
from models.errors import EngineUnavailable
from models.types import Delta, GenerateParams
from server.engine.lifecycle import EngineLifecycle, RestartPolicy

pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(900)]
OPTIONS = EngineOptions(dtype="float32", device="cpu", max_num_seqs=4, max_queue=4, kv_cache_bytes=128 * 2**20)


def _processes() -> set[int]:
    return {child.pid for child in multiprocessing.active_children() if child.pid is not None}


async def _written(engine: Engine, num_tokens: int, request_id: str, started: asyncio.Event) -> list[Delta]:
    prompt = engine.tokenizer.encode("Question: what is a gene?\nAnswer:")
    deltas: list[Delta] = []
    async for delta in engine.generate(prompt, GenerateParams(max_tokens=num_tokens, ignore_eos=True), request_id):
        deltas.append(delta)
        started.set()
    return deltas


async def test_a_killed_engine_core_is_replaced(real_model: Path) -> None:
    """Its answers end with an error; the next engine answers, and nothing of the first is left."""
    pytest.importorskip("vllm")
    from models.engines.vllm_engine.engine import VllmEngine

    card = card_from_request(ModelRequest(source=str(real_model)))
    before = _processes()
    lifecycle = EngineLifecycle(card, lambda: VllmEngine(card, OPTIONS), RestartPolicy(tries=2, backoff_s=0.5))
    await lifecycle.load()
    assert lifecycle.state == "ready", lifecycle.failure
    first = _processes() - before
    started = asyncio.Event()
    answer = asyncio.create_task(_written(lifecycle.get(), 1500, "cut", started))
    await started.wait()

    for pid in first:
        os.kill(pid, signal.SIGKILL)

    with pytest.raises(EngineUnavailable):
        await answer
    await until(lambda: lifecycle.restarts.total and lifecycle.failure is None)
    assert (lifecycle.restarts.total, lifecycle.failure) == (1, None)
    deltas = await _written(lifecycle.get(), 5, "again", asyncio.Event())
    assert sum(len(delta.token_ids) for delta in deltas) == 5
    assert not first & _processes()
    await lifecycle.close()
    assert _processes() <= before
