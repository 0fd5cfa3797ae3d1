"""A sequence's rotary embedding does not depend on its neighbours."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.transformers_engine.engine import TransformersEngine
from models.engines.transformers_engine.model_loading import fix_rotary_factors
from models.errors import EngineUnavailable
from models.types import Delta, GenerateParams

ORIGINAL, CONTEXT = 128, 512
HALF = 16  # of the head dimension
FACTORS = {"short_factor": [1.0] * HALF, "long_factor": [1.0 + i for i in range(HALF)]}
LONGROPE = {"rope_type": "longrope", "original_max_position_embeddings": ORIGINAL, "rope_theta": 10_000.0, **FACTORS}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10_000.0}


def build(folder: Path, tokenizer: Path) -> Path:
    """A random Phi-3 of two layers with the tokenizer beside it."""
    from transformers import AutoTokenizer, Phi3Config, Phi3ForCausalLM

    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder)
    config = Phi3Config(
        vocab_size=448,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        original_max_position_embeddings=ORIGINAL,
        rope_parameters=dict(LONGROPE),
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=1,
        initializer_range=0.5,
        sliding_window=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        Phi3ForCausalLM(config).save_pretrained(folder)
    return folder


async def answer(engine: TransformersEngine, prompt: list[int], name: str) -> list[Delta]:
    params = GenerateParams(max_tokens=40, ignore_eos=True, logprobs=5, cache_salt=name)
    return [delta async for delta in engine.generate(prompt, params, name)]


def logprobs(deltas: list[Delta]) -> list[float]:
    return [value for delta in deltas for entry in delta.logprobs or () for _, value in entry.top]


@pytest.mark.parametrize("max_model_len", [None, ORIGINAL])
async def test_a_long_neighbour_changes_no_answer(tiny_llama: Path, tmp_path: Path, max_model_len: int | None) -> None:
    """Alone, beside a long prompt and after it: the same tokens and logits."""
    folder = build(tmp_path / "phi", tiny_llama)
    card = ModelCard(name="phi", source=str(folder), context_length=CONTEXT)
    options = EngineOptions(dtype="float32", device="cpu", max_model_len=max_model_len)
    engine = TransformersEngine(card, options)
    await engine.start()
    short = [5 + i % 300 for i in range(30)]
    long = [7 + i % 290 for i in range(engine.max_model_len - 50)]
    alone = await answer(engine, short, "alone")
    together = await asyncio.gather(answer(engine, long, "long"), answer(engine, short, "beside"))
    after = await answer(engine, short, "after")
    await engine.close()

    for other in (together[1], after):
        assert [delta.token_ids for delta in other] == [delta.token_ids for delta in alone]
        assert logprobs(other) == pytest.approx(logprobs(alone), abs=1e-4)


def rotary() -> nn.Module:
    from transformers import Phi3Config
    from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

    config = Phi3Config(
        hidden_size=64,
        num_attention_heads=2,
        max_position_embeddings=CONTEXT,
        original_max_position_embeddings=ORIGINAL,
        rope_parameters=dict(LONGROPE),
        pad_token_id=0,
    )
    module: nn.Module = Phi3RotaryEmbedding(config)
    return module


def llama_rotary(rope: dict[str, Any]) -> nn.Module:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=64, num_attention_heads=2, max_position_embeddings=CONTEXT, rope_parameters=dict(rope)
    )
    module: nn.Module = LlamaRotaryEmbedding(config)
    return module


def embedding(module: nn.Module, *positions: int) -> torch.Tensor:
    return torch.stack(module(torch.zeros(1), torch.tensor([positions])))


@pytest.mark.parametrize(("context", "reached"), [(CONTEXT, CONTEXT), (ORIGINAL, ORIGINAL)])
def test_the_factors_are_those_of_the_context(context: int, reached: int) -> None:
    """A context beyond the pre-training's takes the long factors at every position, otherwise the short ones."""
    expected = embedding(rotary(), *range(reached))
    fixed = rotary()
    fix_rotary_factors(fixed, context)

    torch.testing.assert_close(embedding(fixed, 3, 70), expected[:, :, [3, 70]])
    torch.testing.assert_close(embedding(fixed, *range(reached)), expected)


def test_layers_of_several_types_are_fixed_each() -> None:
    """The types that do not depend on the length stay as they are."""
    from transformers import Gemma3TextConfig
    from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding

    plain = {"rope_type": "default", "rope_theta": 10_000.0}
    config = Gemma3TextConfig(
        head_dim=2 * HALF,
        max_position_embeddings=CONTEXT,
        rope_parameters={"full_attention": dict(LONGROPE), "sliding_attention": plain},
    )
    module = Gemma3RotaryEmbedding(config)
    fix_rotary_factors(module, CONTEXT)
    positions = torch.tensor([[1], [400]])
    for layer in ("full_attention", "sliding_attention"):
        alone = module(torch.zeros(1), positions[:1], layer_type=layer)
        beside = module(torch.zeros(1), positions, layer_type=layer)
        assert torch.equal(alone[0][0], beside[0][0])
    assert not torch.equal(module.full_attention_inv_freq, module.sliding_attention_inv_freq)


def test_dynamic_factors_stay_those_of_the_context() -> None:
    """What transformers would scale lies beyond the context, which no sequence passes."""
    expected = embedding(llama_rotary(DYNAMIC), 3, 400)
    fixed = llama_rotary(DYNAMIC)
    fix_rotary_factors(fixed, CONTEXT)
    embedding(fixed, 4 * CONTEXT)

    assert torch.equal(embedding(fixed, 3, 400), expected)


def test_a_model_that_cannot_be_fixed_is_refused() -> None:
    """PhiMoE scales by the longest position in code of its own. Up to its pre-training's context it is served."""
    from transformers import PhimoeConfig
    from transformers.models.phimoe.modeling_phimoe import PhimoeRotaryEmbedding

    config = PhimoeConfig(
        hidden_size=64,
        num_attention_heads=2,
        max_position_embeddings=CONTEXT,
        rope_parameters={**LONGROPE, "short_mscale": 1.0, "long_mscale": 1.3},
    )
    with pytest.raises(EngineUnavailable, match="lower max_model_len"):
        fix_rotary_factors(PhimoeRotaryEmbedding(config), CONTEXT)
    fix_rotary_factors(PhimoeRotaryEmbedding(config), ORIGINAL)


def test_other_modules_are_left_alone() -> None:
    """Plain rotary embeddings and modules without any stay as they are."""
    plain = llama_rotary({"rope_type": "default", "rope_theta": 10_000.0})
    model = nn.ModuleList([nn.Linear(2, 2), plain])
    before = embedding(plain, 1, 400)
    fix_rotary_factors(model, CONTEXT)

    assert torch.equal(embedding(plain, 1, 400), before)
    assert plain.rope_type == "default"
