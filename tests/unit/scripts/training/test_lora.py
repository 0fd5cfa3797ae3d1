"""Adapters: their effect, and PEFT's format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from scripts.training.lora import LoraShape, adapter_parameters, add_adapter, load_adapter, save_adapter, shape_of

IDS = torch.tensor([[3, 5, 8]])
SHAPE = LoraShape(rank=4, alpha=4)


def _filled(model: Any) -> Any:
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in adapter_parameters(model).values():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return model


def test_a_new_adapter_changes_nothing(tiny_model: Callable[[], Any]) -> None:
    model = tiny_model()
    with torch.no_grad():
        before = model(IDS).logits
        for name, parameter in adapter_parameters(model).items():
            if "lora_A" in name:
                parameter.zero_()
        assert torch.equal(before, model(IDS).logits)


def test_only_the_adapter_is_trained(tiny_model: Callable[[], Any]) -> None:
    model = tiny_model()
    trained = {id(p) for p in model.parameters() if p.requires_grad}

    assert trained == {id(p) for p in adapter_parameters(model).values()}
    assert len(trained) == 2 * 2 * 7


def test_a_saved_adapter_gives_the_same_outputs(tiny_model: Callable[[], Any], tmp_path: Path) -> None:
    """Up to the rounding of its numbers to bfloat16."""
    model, other = _filled(tiny_model()), tiny_model()
    save_adapter(model, SHAPE, "base", tmp_path)
    load_adapter(other, tmp_path)
    with torch.no_grad():
        assert torch.allclose(model(IDS).logits, other(IDS).logits, atol=0.05)
        assert not torch.allclose(tiny_model()(IDS).logits, other(IDS).logits, atol=0.05)


def test_the_files_are_those_of_peft(tiny_model: Callable[[], Any], tmp_path: Path) -> None:
    save_adapter(tiny_model(), SHAPE, "base", tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    tensors = load_file(tmp_path / "adapter_model.safetensors")

    assert (config["peft_type"], config["r"], config["lora_alpha"], config["task_type"]) == ("LORA", 4, 4, "CAUSAL_LM")
    assert tensors["base_model.model.model.layers.1.mlp.down_proj.lora_A.weight"].shape == (4, 48)
    assert tensors["base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight"].shape == (16, 4)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    assert shape_of(tmp_path) == SHAPE


def test_an_adapter_of_another_scale_is_refused(tiny_model: Callable[[], Any], tmp_path: Path) -> None:
    save_adapter(tiny_model(), LoraShape(rank=4, alpha=8), "base", tmp_path)

    with pytest.raises(ValueError, match="scale 2"):
        load_adapter(tiny_model(), tmp_path)


def test_an_adapter_of_another_rank_is_refused(tiny_model: Callable[[], Any], tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=9, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2)  # fmt: skip
    other = LlamaForCausalLM(config)
    add_adapter(other, LoraShape(rank=8, alpha=8), seed=0)
    save_adapter(other, LoraShape(rank=8, alpha=8), "base", tmp_path)

    with pytest.raises(ValueError, match="has the shape"):
        load_adapter(tiny_model(), tmp_path)
