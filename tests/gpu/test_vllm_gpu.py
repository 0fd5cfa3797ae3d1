"""vLLM on a CUDA device: its share of the memory, its sizes, and what its newer model runner does with requests."""

from __future__ import annotations

import json
import runpy
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from models.card import ModelCard
from models.engines.base import EngineOptions, LayerCall
from models.engines.vllm_engine.engine import VllmEngine
from models.engines.vllm_engine.launch import DEFAULT_SHARE, memory_share, query_devices
from models.errors import EngineUnavailable
from models.types import GenerateParams

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1200), pytest.mark.asyncio(loop_scope="module")]
CONTEXT = 512
HELD_SHARE = 0.25


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> ModelCard:
    torch = pytest.importorskip("torch")
    pytest.importorskip("vllm")
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    build = runpy.run_path(str(Path(__file__).parents[1] / "tiny_models.py"))["build_llama"]
    return ModelCard(name="tiny", source=str(build(tmp_path_factory.mktemp("llama"))), context_length=CONTEXT)


@pytest.fixture(scope="module")
def held(card: ModelCard) -> Any:
    """A quarter of the GPU, taken by this process as its indices would, for as long as the engine runs."""
    import torch

    return torch.ones(int(HELD_SHARE * torch.cuda.mem_get_info(0)[1]), dtype=torch.uint8, device="cuda:0")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(card: ModelCard, held: Any) -> AsyncIterator[VllmEngine]:
    engine = VllmEngine(card, EngineOptions(device="cuda"))
    await engine.start()
    yield engine
    await engine.close()


async def _completion(engine: VllmEngine, **fields: Any) -> tuple[int, dict[str, Any]]:
    layer, sent = await engine.openai_layer(), list[Any]()

    async def send(message: Any) -> None:
        sent.append(message)

    body = {"model": "tiny", "prompt": [5, 6, 7], "max_tokens": 8, "ignore_eos": True} | fields
    await layer(LayerCall("/v1/completions", body, ((b"content-type", b"application/json"),)), send)
    return sent[0]["status"], json.loads(b"".join(one.get("body", b"") for one in sent[1:]))


async def test_the_query_reads_what_this_process_holds(card: ModelCard, held: Any) -> None:
    """And the share that is chosen is below vLLM's, which would not be free."""
    (found,) = query_devices([0])
    assert found.total - found.free >= held.numel()
    assert memory_share(card, EngineOptions(), query_devices) < DEFAULT_SHARE
    with pytest.raises(EngineUnavailable, match="set it to"):
        memory_share(card, EngineOptions(gpu_memory_utilization=0.99), query_devices)


async def test_the_engine_starts_beside_it_with_vllms_number_of_sequences(engine: VllmEngine, held: Any) -> None:
    """256 to 1,024 by the GPU; the memory beside it stays what it was."""
    assert engine.slots >= 256
    params = GenerateParams(max_tokens=8, ignore_eos=True)
    deltas = [one async for one in engine.generate([5, 6, 7], params, "gpu-1")]
    assert sum(len(one.token_ids) for one in deltas) == 8 and int(held[-1]) == 1


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"allowed_token_ids": [1, 2] * 600}, "allowed_token_ids"),
        ({"stop_token_ids": list(range(140)), "min_tokens": 2}, "stop_token_ids"),
        ({"bad_words": ["qzxj-" * 20 + str(number) for number in range(60)]}, "bad_words"),
        ({"logit_bias": {str(number): 1 for number in range(1025)}}, "logit_bias"),
    ],
)
async def test_no_request_ends_the_engine(engine: VllmEngine, fields: dict[str, Any], param: str) -> None:
    """Refused with the field's name by the engine's adapter alone, and the next request is answered."""
    status, reply = await _completion(engine, **fields)
    assert status == 400 and param in str(reply["error"])
    assert engine.is_ready() and (await _completion(engine))[0] == 200


async def test_full_tables_are_answered(engine: VllmEngine) -> None:
    """As many entries as fit, all at once."""
    ids = engine.tokenizer.vocab_size
    fields = {
        "allowed_token_ids": [number % ids for number in range(1024)],
        "stop_token_ids": list(range(100)),
        "min_tokens": 2,
        "logit_bias": {str(number): 1 for number in range(ids)},
        "bad_words": ["gene"],
    }
    assert (await _completion(engine, **fields))[0] == 200


async def test_padded_ids_are_never_sampled(engine: VllmEngine) -> None:
    """By the newer model runner too, for our methods and for the layer."""
    beyond = engine.tokenizer.vocab_size
    status, reply = await _completion(
        engine, logit_bias={str(beyond): 100}, max_tokens=64, temperature=1, return_token_ids=True
    )
    assert status == 200 and max(reply["choices"][0]["token_ids"]) < beyond
    params = replace(GenerateParams(max_tokens=64, ignore_eos=True), temperature=2.0, seed=1)
    deltas = [one async for one in engine.generate([5, 6, 7], params, "gpu-2")]
    assert max(token for one in deltas for token in one.token_ids) < beyond
