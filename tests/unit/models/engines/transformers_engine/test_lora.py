"""Merged LoRA adapters compute what PEFT's formula says, and what cannot be merged is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.engines.transformers_engine.model_loading import merge_adapter
from models.errors import ModelNotFound

CONFIG: dict[str, Any] = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["o_proj"], "bias": "none"}
LAYER = "model.layers.0"
NAME = f"base_model.model.{LAYER}.o_proj"


class Net(nn.Module):
    """The names of a decoder's modules, with a head that is tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        layer, inner, embed = nn.Module(), nn.Module(), nn.Embedding(10, 6)
        layer.o_proj, layer.q_proj = nn.Linear(6, 10), nn.Linear(6, 10, bias=False)
        inner.layers, inner.embed = nn.ModuleList([layer]), embed
        self.head = nn.Linear(6, 10, bias=False)
        self.head.weight = embed.weight
        self.model = inner


def _tensors(name: str = NAME) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {
        f"{name}.lora_A.weight": torch.randn(4, 6, generator=generator),
        f"{name}.lora_B.weight": torch.randn(10, 4, generator=generator),
    }


def _adapter(folder: Path, config: dict[str, Any] | None = None, tensors: dict[str, Tensor] | None = None) -> Path:
    from safetensors.torch import save_file

    (folder / "adapter_config.json").write_text(json.dumps(CONFIG | (config or {})))
    save_file(_tensors() if tensors is None else tensors, folder / "adapter_model.safetensors")
    return folder


@pytest.mark.parametrize(("config", "scale"), [({}, 2.0), ({"use_rslora": True}, 4.0), ({"lora_alpha": 16}, 4.0)])
def test_the_layer_computes_with_the_adapter(config: dict[str, Any], scale: float, tmp_path: Path) -> None:
    """W x + scale B (A x); no other weight changes."""
    net = Net()
    rows, other = torch.randn(3, 6), net.get_parameter(f"{LAYER}.q_proj.weight").clone()
    layer, (down, up) = net.get_submodule(f"{LAYER}.o_proj"), _tensors().values()
    expected = layer(rows) + scale * (rows @ down.T @ up.T)
    assert merge_adapter(net, _adapter(tmp_path, config)) == 1
    torch.testing.assert_close(layer(rows), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(net.get_parameter(f"{LAYER}.q_proj.weight"), other)


def test_the_sum_is_rounded_once(tmp_path: Path) -> None:
    """In bfloat16 too, the small change is not rounded before it is added."""
    net = Net().to(torch.bfloat16)
    down, up = _tensors().values()
    expected = (net.get_parameter(f"{LAYER}.o_proj.weight").float() + 2 * (up @ down)).to(torch.bfloat16)
    merge_adapter(net, _adapter(tmp_path))
    assert torch.equal(net.get_parameter(f"{LAYER}.o_proj.weight"), expected)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"peft_type": "IA3"}, "peft_type 'IA3' cannot be merged"),
        ({"use_dora": True}, "use_dora True"),
        ({"bias": "all"}, "bias 'all'"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"rank_pattern": {"o_proj": 8}}, "rank_pattern"),
        ({"r": 0}, "r 0"),
        ({"r": "many"}, "cannot be read"),
    ],
)
def test_an_adapter_of_another_kind_is_refused(config: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=message):
        merge_adapter(Net(), _adapter(tmp_path, config))


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, "holds no adapter"),
        (dict(list(_tensors().items())[:1]), "one matrix of two"),
        ({f"{NAME}.lora_magnitude_vector": torch.ones(4)}, "cannot be merged: .*magnitude"),
        (_tensors("base_model.model.model.layers.7.o_proj"), r"another model, which has a layer model\.layers\.7"),
        (_tensors("base_model.model.head"), "changes head, whose weight another layer shares"),
        ({name: tensor.T.contiguous() for name, tensor in _tensors().items()}, "for another model: .* is"),
        ({name: tensor * float("nan") for name, tensor in _tensors().items()}, "not finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tensors: dict[str, Tensor], message: str, tmp_path: Path) -> None:
    """The message names the layer."""
    with pytest.raises(ModelNotFound, match=message):
        merge_adapter(Net(), _adapter(tmp_path, tensors=tensors))


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"adapter_config\.json cannot be read"):
        merge_adapter(Net(), tmp_path)
    _adapter(tmp_path)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"half")
    with pytest.raises(ModelNotFound, match=r"adapter_model\.safetensors cannot be read"):
        merge_adapter(Net(), tmp_path)
