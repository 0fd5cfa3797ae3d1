"""The vLLM engine beyond the common contract: queue, priorities, calls under the grammar, life and death."""

from __future__ import annotations

import asyncio
import json
import os
import re
import runpy
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import pytest_asyncio
from waiting import until

from models.card import ModelCard
from models.catalog import ModelRequest, card_from_request
from models.decoding.grammar import forced_call_grammar
from models.engines.base import EngineOptions
from models.errors import ENGINE_FULL, EngineUnavailable, ModelError, ModelNotFound
from models.types import Delta, GenerateParams
from retrieval.ncbi.calls.urls import call_regex

if TYPE_CHECKING:
    from models.engines.vllm_engine.engine import VllmEngine

psutil: Any = pytest.importorskip("psutil", reason="comes with vLLM")
pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900), pytest.mark.asyncio(loop_scope="session")]

PROMPT = "Question: What is the official gene symbol of LMP10?\n"
SLOTS, QUEUE = 8, 4


def stream(engine: VllmEngine, request_id: str, **params: Any) -> AsyncGenerator[Delta, None]:
    wanted = GenerateParams(**{"max_tokens": 300, "ignore_eos": True, **params})
    deltas = engine.generate(engine.tokenizer.encode(f"{PROMPT}{request_id}"), wanted, request_id)
    return cast(AsyncGenerator[Delta, None], deltas)


async def collect(deltas: AsyncGenerator[Delta, None]) -> list[Delta]:
    return [delta async for delta in deltas]


def processes_of(engine: VllmEngine) -> list[Any]:
    """The engine's processes and theirs."""
    roots = [psutil.Process(pid) for pid in engine._reaper.watched] if engine._reaper else []
    return roots + [child for root in roots for child in root.children(recursive=True)]


def all_gone(processes: list[Any]) -> bool:
    """Whether they end by themselves within a generous time."""
    deadline = time.monotonic() + 60
    while any(p.is_running() and p.status() != "zombie" for p in processes) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not any(p.is_running() and p.status() != "zombie" for p in processes)


async def test_requests_beyond_slots_and_queue_are_refused(vllm_engine: VllmEngine) -> None:
    """The one too many raises ModelError at once; those before it all finish."""
    tasks = [
        asyncio.create_task(collect(stream(vllm_engine, f"fill-{i}", max_tokens=20))) for i in range(SLOTS + QUEUE)
    ]
    await asyncio.sleep(0)
    with pytest.raises(ModelError, check=ENGINE_FULL.is_of):
        await anext(stream(vllm_engine, "one-too-many"))

    assert all(deltas[-1].finish_reason == "length" for deltas in await asyncio.gather(*tasks))


async def test_higher_priority_leaves_the_queue_first(vllm_engine: VllmEngine) -> None:
    """With one slot coming free, a later request of higher priority gets it before an earlier one."""
    order: list[str] = []

    async def note_first_token(name: str, priority: int) -> None:
        deltas = stream(vllm_engine, name, max_tokens=2, priority=priority)
        await anext(deltas)
        order.append(name)
        await collect(deltas)

    long = [stream(vllm_engine, f"long-{i}") for i in range(SLOTS)]
    for deltas in long:
        await anext(deltas)
    waiting = []
    for name, priority in (("low", 0), ("high", 5)):
        waiting.append(asyncio.create_task(note_first_token(name, priority)))
        await asyncio.sleep(0.05)
    await long[0].aclose()
    await asyncio.gather(*waiting)
    for deltas in long:
        await deltas.aclose()

    assert order == ["high", "low"]


async def test_the_scheduler_says_who_waits_and_how_much_memory_is_taken(vllm_engine: VllmEngine) -> None:
    """While they run; none is taken once all have left. vLLM's own series are nowhere in this process."""
    from prometheus_client import REGISTRY

    streams = [stream(vllm_engine, f"held-{i}") for i in range(SLOTS + 2)]
    for deltas in streams[:SLOTS]:
        await anext(deltas)
    waiting = [asyncio.ensure_future(anext(deltas)) for deltas in streams[SLOTS:]]
    await until(lambda: vllm_engine.stats().waiting == 2)
    held = vllm_engine.stats()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    for deltas in streams:
        await deltas.aclose()
    left = vllm_engine.stats()

    assert (held.running, held.waiting) == (SLOTS, 2)
    assert held.kv_cache_used is not None and 0 < held.kv_cache_used <= 1
    assert (left.running, left.waiting, left.kv_cache_used) == (0, 0, 0.0)
    assert [family.name for family in REGISTRY.collect() if family.name.startswith("vllm")] == []


@pytest.mark.long
async def test_calls_under_the_grammar_are_allowed_and_end_in_the_arrow(vllm_engine: VllmEngine) -> None:
    """Forty calls sampled at temperature 1 are all allowed ones; each ends in exactly the arrow's one token."""
    pattern = call_regex()
    grammar = forced_call_grammar(pattern, vllm_engine.tokenizer)
    arrow = vllm_engine.tokenizer.token_id("]->")
    wanted = {"max_tokens": 900, "temperature": 1.0, "grammar": grammar, "stop": ("]->",)}
    answers: list[list[Delta]] = []
    for start in range(0, 40, SLOTS):
        answers += await asyncio.gather(
            *(collect(stream(vllm_engine, f"call-{seed}", seed=seed, **wanted)) for seed in range(start, start + SLOTS))
        )

    finished = [deltas for deltas in answers if deltas[-1].finish_reason == "stop"]
    assert len(finished) >= 38  # a call may be cut by max_tokens
    for deltas in finished:
        text = "".join(delta.text for delta in deltas)
        assert re.fullmatch(pattern, text.removeprefix("[")), text
        assert deltas[-1].token_ids[-1:] == (arrow,)


async def test_nothing_of_the_engine_listens_beyond_loopback(vllm_engine: VllmEngine) -> None:
    """Every internet socket of its processes is bound to this machine alone."""
    sockets = [found for process in processes_of(vllm_engine) for found in process.net_connections(kind="inet")]

    assert {found.laddr.ip for found in sockets} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


async def test_a_model_that_is_not_here_is_not_found() -> None:
    """Neither a missing directory nor a hub id that may not be fetched starts anything."""
    from models.engines.vllm_engine.engine import VllmEngine

    for source in ("/nowhere/at/all", "nobody/no-such-model"):
        engine = VllmEngine(ModelCard(name="none", source=source), EngineOptions(device="cpu"))
        with pytest.raises(ModelNotFound):
            await engine.start()
        assert not engine.is_ready()
        with pytest.raises(EngineUnavailable):
            await anext(cast(AsyncGenerator[Delta, None], engine.generate([1], GenerateParams(max_tokens=1), "none")))


def _llama(folder: Path, **config: object) -> ModelCard:
    runpy.run_path(str(Path(__file__).parents[4] / "tiny_models.py"))["build_llama"](folder)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    return card_from_request(ModelRequest(source=str(folder)))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own_engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[VllmEngine]:
    """One that a test may kill, of a model whose context is far longer than its memory. It is not started."""
    from models.engines.vllm_engine.engine import VllmEngine

    card = _llama(tmp_path_factory.mktemp("llama"), max_position_embeddings=131_072)
    engine = VllmEngine(card, EngineOptions(dtype="float32", device="cpu", kv_cache_bytes=8 * 2**20))
    yield engine
    await engine.close()


@pytest.mark.long
async def test_a_context_beyond_the_memory_is_fitted_to_it(
    own_engine: VllmEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """vLLM by itself would refuse to start; the log has the length, and an answer may be as long."""
    await own_engine.close()
    with caplog.at_level("INFO"):
        await own_engine.start()

    assert 2048 <= own_engine.max_model_len < 131_072
    assert f"max_model_len={own_engine.max_model_len} of 131072" in caplog.text
    assert (await collect(stream(own_engine, "fits", max_tokens=8)))[-1].finish_reason == "length"


@pytest.mark.long
async def test_a_dead_engine_is_reported_and_can_be_started_again(own_engine: VllmEngine) -> None:
    """Killed in mid-answer it raises EngineUnavailable, leaves no process, and serves again after a new start.

    Closing it under a running request ends that request the same way.
    """
    engine = own_engine
    await engine.start()
    whole = [token for delta in await collect(stream(engine, "x", max_tokens=20)) for token in delta.token_ids]
    processes = processes_of(engine)
    running = stream(engine, "victim", max_tokens=400)
    await anext(running)
    os.kill(processes[0].pid, signal.SIGKILL)
    with pytest.raises(EngineUnavailable):
        await collect(running)

    assert not engine.is_ready()
    with pytest.raises(EngineUnavailable):
        await anext(stream(engine, "after"))
    await engine.close()
    assert await asyncio.to_thread(all_gone, processes)

    await engine.start()
    again = [token for delta in await collect(stream(engine, "x", max_tokens=20)) for token in delta.token_ids]
    assert again == whole
    processes = processes_of(engine)
    running = stream(engine, "closed", max_tokens=400)
    await anext(running)
    await engine.close()
    with pytest.raises(EngineUnavailable):
        await collect(running)
    assert await asyncio.to_thread(all_gone, processes)


@pytest.mark.long
async def test_what_stops_the_engines_process_stands_in_the_error(tmp_path: Path) -> None:
    """Its own exception, not the parent's, which says only that it failed."""
    from models.engines.vllm_engine.engine import VllmEngine

    # With such layers the need of memory is not known before the start.
    card = _llama(tmp_path, max_position_embeddings=131_072, attn_type_list=[1])
    engine = VllmEngine(card, EngineOptions(device="cpu", kv_cache_bytes=2**20, max_model_len=131_072))
    with pytest.raises(EngineUnavailable, match=r"ValueError: .*131072"):
        await engine.start()


async def test_a_text_that_repeats_itself_frees_its_slot(vllm_engine: VllmEngine) -> None:
    """vLLM's request is closed before the last delta."""
    bias = ((50, 100.0),)
    written = await collect(
        stream(vllm_engine, "again", max_tokens=200, logit_bias=bias, ignore_eos=True, stop_on_repetition=True)
    )

    assert (written[-1].finish_reason, written[-1].stop_reason) == ("length", "repetition")
    assert sum(len(delta.token_ids) for delta in written) == 128
    assert vllm_engine.stats().running == 0
