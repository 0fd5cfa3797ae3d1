"""A LoRA adapter on vLLM: chosen by its name, its weights used, a damaged one noticed at the start."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.card import ModelCard
from models.engines.base import Engine, EngineOptions, LayerCall, LoraAdapter
from models.engines.registry import create_engine
from models.engines.vllm_engine.compat import load_adapters
from models.engines.vllm_engine.engine import VllmEngine
from models.errors import ModelNotFound
from models.types import GenerateParams
from tests.tiny_models import build_adapter

pytestmark = [pytest.mark.timeout(900), pytest.mark.asyncio(loop_scope="session")]
OPTIONS = EngineOptions(dtype="float32", device="cpu")


async def _completion(engine: VllmEngine, **fields: Any) -> tuple[int, Any]:
    layer, sent = await engine.openai_layer(), []

    async def send(message: Any) -> None:
        sent.append(message)

    body = {"prompt": [5, 6, 7], "max_tokens": 8, "temperature": 0, "ignore_eos": True} | fields
    await layer(LayerCall("/v1/completions", body, ((b"content-type", b"application/json"),)), send)
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:])


async def _greedy(engine: Engine) -> list[int]:
    params = GenerateParams(max_tokens=8, temperature=0, ignore_eos=True)
    return [token async for delta in engine.generate([5, 6, 7], params, "own") for token in delta.token_ids]


async def _merged(card: ModelCard, adapter: Path | None) -> list[int]:
    """What the other engine writes with the adapter merged into the weights."""
    engine = create_engine("transformers", replace(card, adapter=adapter), OPTIONS)
    await engine.start()
    try:
        return await _greedy(engine)
    finally:
        await engine.close()


async def test_the_name_of_the_model_chooses_the_weights(adapted: VllmEngine) -> None:
    """The model's own has its card's adapter, in its layer and under the methods; an adapter's has that adapter."""
    engine, card = adapted, adapted._card
    notes, *_ = engine._options.lora_adapters
    answers = {}
    for model in ("tiny", "notes"):
        status, body = await _completion(engine, model=model, return_token_ids=True)
        reply = json.loads(body)
        assert status == 200 and reply["model"] == model
        answers[model] = reply["choices"][0]["token_ids"]
    own, beside, base = [await _merged(card, adapter) for adapter in (card.adapter, notes.path, None)]

    assert answers == {"tiny": own, "notes": beside}
    assert await _greedy(engine) == own
    assert len(own) == len(beside) == 8 and base not in (own, beside) and own != beside


@pytest.mark.parametrize("stream", [False, True])
async def test_what_has_no_room_in_the_sampler_is_a_400_of_its_field(adapted: VllmEngine, stream: bool) -> None:
    """Also of a stream, before its first byte; the engine answers the next request."""
    status, body = await _completion(adapted, model="tiny", allowed_token_ids=[1, 2] * 600, stream=stream)
    error = json.loads(body)["error"]
    assert (status, error["param"]) == (400, "allowed_token_ids") and "structured_outputs" in error["message"]
    assert adapted.is_ready() and (await _completion(adapted, model="tiny"))[0] == 200


async def test_ids_without_a_token_are_not_sampled_by_the_layer_either(adapted: VllmEngine) -> None:
    """Though the request asks for nothing else."""
    beyond = adapted.tokenizer.vocab_size
    status, body = await _completion(
        adapted, model="tiny", logit_bias={str(beyond): 100}, return_token_ids=True, temperature=1
    )
    assert status == 200 and max(json.loads(body)["choices"][0]["token_ids"]) < beyond


async def test_an_adapter_that_is_damaged_is_named(adapted: VllmEngine, tmp_path: Path) -> None:
    """When the engine loads it, as its third: two are loaded."""
    damaged, (notes, *_) = build_adapter(tmp_path / "damaged"), adapted._options.lora_adapters
    (damaged / "adapter_model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ModelNotFound, match=r"lora_adapters: broken cannot be loaded from .*damaged"):
        await load_adapters(adapted._client, (notes, notes, LoraAdapter("broken", damaged)))


async def test_an_adapter_that_is_not_there_is_named_before_vllm_starts(adapted: VllmEngine, tmp_path: Path) -> None:
    """Not after minutes, nor at the first request for it."""
    broken = VllmEngine(adapted._card, replace(OPTIONS, lora_adapters=(LoraAdapter("gone", tmp_path / "gone"),)))
    with pytest.raises(ModelNotFound, match=r"lora_adapters: gone .*gone"):
        await broken.start()
    assert not broken.is_ready() and broken._reaper is None
