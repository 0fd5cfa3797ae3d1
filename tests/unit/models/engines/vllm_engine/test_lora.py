"""A LoRA adapter on vLLM: chosen by its name, its weights used, a damaged one noticed at the start."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from models.catalog import ModelCard
from models.engines.base import LayerCall
from models.engines.options import EngineOptions, LoraAdapter
from models.engines.vllm_engine.engine import VllmEngine
from models.errors import ModelNotFound
from tests.tiny_models import CONTEXT, build_llama

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900), pytest.mark.asyncio(loop_scope="module")]
OPTIONS = EngineOptions(dtype="float32", device="cpu", max_num_seqs=4, kv_cache_bytes=128 * 2**20, max_lora_rank=8)


def build_adapter(folder: Path) -> Path:
    """An adapter of rank 4 on the output projection of attention, large enough to change each answer."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    generator = torch.Generator().manual_seed(7)
    weights = {}
    for layer in range(2):
        name = f"base_model.model.model.layers.{layer}.self_attn.o_proj"
        weights[f"{name}.lora_A.weight"] = torch.randn(4, 64, generator=generator)
        weights[f"{name}.lora_B.weight"] = torch.randn(64, 4, generator=generator)
    save_file(weights, str(folder / "adapter_model.safetensors"))
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["o_proj"], "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> ModelCard:
    pytest.importorskip("vllm")
    return ModelCard(name="tiny", source=str(build_llama(tmp_path_factory.mktemp("llama"))), context_length=CONTEXT)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(card: ModelCard, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[VllmEngine]:
    adapter = LoraAdapter("notes", build_adapter(tmp_path_factory.mktemp("adapters") / "notes"))
    engine = VllmEngine(card, replace(OPTIONS, lora_adapters=(adapter,)))
    await engine.start()
    yield engine
    await engine.close()


async def _completion(engine: VllmEngine, **fields: Any) -> tuple[int, Any]:
    layer, sent = await engine.openai_layer(), []

    async def send(message: Any) -> None:
        sent.append(message)

    body = {"prompt": [5, 6, 7], "max_tokens": 8, "temperature": 0, "ignore_eos": True} | fields
    await layer(LayerCall("/v1/completions", body, ((b"content-type", b"application/json"),)), send)
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:])


async def test_the_name_of_the_model_chooses_the_weights(engine: VllmEngine) -> None:
    """The same prompt, with and without the adapter."""
    answers = {}
    for model in ("tiny", "notes"):
        status, body = await _completion(engine, model=model, return_token_ids=True)
        reply = json.loads(body)
        assert status == 200 and reply["model"] == model
        answers[model] = reply["choices"][0]["token_ids"]
    assert len(answers["notes"]) == 8 and answers["notes"] != answers["tiny"]


@pytest.mark.parametrize("stream", [False, True])
async def test_what_has_no_room_in_the_sampler_is_a_400_of_its_field(engine: VllmEngine, stream: bool) -> None:
    """Also of a stream, before its first byte; the engine answers the next request."""
    status, body = await _completion(engine, model="tiny", allowed_token_ids=[1, 2] * 600, stream=stream)
    error = json.loads(body)["error"]
    assert (status, error["param"]) == (400, "allowed_token_ids") and "structured_outputs" in error["message"]
    assert engine.is_ready() and (await _completion(engine, model="tiny"))[0] == 200


async def test_ids_without_a_token_are_not_sampled_by_the_layer_either(engine: VllmEngine) -> None:
    """Though the request asks for nothing else."""
    beyond = engine.tokenizer.vocab_size
    status, body = await _completion(
        engine, model="tiny", logit_bias={str(beyond): 100}, return_token_ids=True, temperature=1
    )
    assert status == 200 and max(json.loads(body)["choices"][0]["token_ids"]) < beyond


async def test_an_adapter_that_is_not_there_is_named_at_the_start(card: ModelCard, tmp_path: Path) -> None:
    """Not at the first request for it."""
    broken = VllmEngine(card, replace(OPTIONS, lora_adapters=(LoraAdapter("gone", tmp_path / "gone"),)))
    with pytest.raises(ModelNotFound, match=r"lora_adapters: gone .*gone"):
        await broken.start()
    assert not broken.is_ready()
