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
from models.engines.base import EngineOptions, LayerCall, LoraAdapter
from models.engines.vllm_engine.engine import VllmEngine
from models.errors import ModelNotFound
from models.types import GenerateParams
from tests.tiny_models import CONTEXT, build_adapter, build_llama

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900), pytest.mark.asyncio(loop_scope="module")]
OPTIONS = EngineOptions(dtype="float32", device="cpu", max_num_seqs=4, kv_cache_bytes=128 * 2**20)


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


async def test_the_model_itself_answers_with_the_adapter_of_its_card(
    engine: VllmEngine, card: ModelCard, tmp_path: Path
) -> None:
    """In its layer and under the methods; as one that is served beside the model under its own name."""
    reply = json.loads((await _completion(engine, model="notes", return_token_ids=True))[1])
    chosen = VllmEngine(replace(card, adapter=build_adapter(tmp_path / "own")), OPTIONS)
    await chosen.start()
    try:
        found = json.loads((await _completion(chosen, model="tiny", return_token_ids=True))[1])
        params = GenerateParams(max_tokens=8, temperature=0, ignore_eos=True)
        ids = [token async for delta in chosen.generate([5, 6, 7], params, "own") for token in delta.token_ids]
    finally:
        await chosen.close()
    assert found["choices"][0]["token_ids"] == reply["choices"][0]["token_ids"] == ids


async def test_an_adapter_that_is_not_there_is_named_at_the_start(card: ModelCard, tmp_path: Path) -> None:
    """Not at the first request for it."""
    broken = VllmEngine(card, replace(OPTIONS, lora_adapters=(LoraAdapter("gone", tmp_path / "gone"),)))
    with pytest.raises(ModelNotFound, match=r"lora_adapters: gone .*gone"):
        await broken.start()
    assert not broken.is_ready()
