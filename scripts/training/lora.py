"""Add trainable low-rank updates to a frozen model, and read and write them in PEFT's format.

Hu EJ et al. LoRA: low-rank adaptation of large language models. ICLR 2022: y = W x + (alpha / r) B A x.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

PROJECTIONS: Final = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
WEIGHTS_FILE: Final = "adapter_model.safetensors"
CONFIG_FILE: Final = "adapter_config.json"
# PEFT wraps the model twice before its own names begin.
_PREFIX: Final = "base_model.model."
# Half of the first bit that is kept of a float32: 5 of 23 are.
_HALF: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class LoraShape:
    """Set rank and scale of the update: ``alpha / rank`` multiplies it."""

    rank: int = 32
    alpha: int = 32


class LoraLinear(nn.Module):
    """Add a low-rank update, kept in float32 and applied in the type of the input, to a frozen linear layer."""

    def __init__(self, base: nn.Linear, shape: LoraShape, generator: torch.Generator) -> None:
        super().__init__()
        self.base = base
        self.scale = shape.alpha / shape.rank
        bound = 1 / math.sqrt(base.in_features)
        first = torch.empty(shape.rank, base.in_features).uniform_(-bound, bound, generator=generator)
        self.lora_A = nn.Parameter(first)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, shape.rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = functional.linear(x, self.lora_A.to(x.dtype))
        update: torch.Tensor = functional.linear(low, (self.scale * self.lora_B).to(x.dtype))
        return self.base(x) + update  # type: ignore[no-any-return]  # a module's call is untyped


def add_adapter(model: nn.Module, shape: LoraShape, seed: int) -> None:
    """Freeze the model and wrap its projections in place; the update starts at zero."""
    model.requires_grad_(requires_grad=False)
    generator = torch.Generator().manual_seed(seed)
    found = [(name, module) for name, module in model.named_modules() if name.rsplit(".", 1)[-1] in PROJECTIONS]
    for name, module in found:
        if not isinstance(module, nn.Linear):
            raise TypeError(f"{name} is a {type(module).__name__}, not a linear layer")
        parent, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(parent), leaf, LoraLinear(module, shape, generator))


def adapter_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trainable matrices under PEFT's names, in the model's order."""
    return dict(_named(model))


def shape_of(folder: Path) -> LoraShape:
    """Read rank and scale of an adapter."""
    config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    return LoraShape(int(config["r"]), int(config["lora_alpha"]))


def load_adapter(model: nn.Module, folder: Path) -> None:
    """Read an adapter into a model that ``add_adapter`` wrapped with the same rank and scale.

    Raises:
        ValueError: rank, scale or names differ.
    """
    config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    layer = next(module for module in model.modules() if isinstance(module, LoraLinear))
    if not math.isclose(config["lora_alpha"] / config["r"], layer.scale):
        raise ValueError(f"{folder}: scale {config['lora_alpha'] / config['r']} is not {layer.scale}")
    restore(adapter_parameters(model), load_file(folder / WEIGHTS_FILE))


def restore(parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, torch.Tensor]) -> None:
    """Copy tensors into the parameters of the same names.

    Raises:
        ValueError: names or shapes differ.
    """
    if parameters.keys() != tensors.keys():
        raise ValueError("the adapter is for a model with other layers")
    with torch.no_grad():
        for name, parameter in parameters.items():
            if parameter.shape != tensors[name].shape:
                raise ValueError(f"{name} has the shape {tuple(tensors[name].shape)}, not {tuple(parameter.shape)}")
            parameter.copy_(tensors[name])


def save_adapter(model: nn.Module, shape: LoraShape, base_name: str, folder: Path) -> None:
    """Write the adapter in bfloat16 with PEFT's configuration; a number's last two bits are 0 and pack to nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    bits = {name: p.detach().float().view(torch.int32) for name, p in adapter_parameters(model).items()}
    tensors = {name: ((one + _HALF) & -2 * _HALF).view(torch.float32).bfloat16() for name, one in bits.items()}
    save_file(tensors, folder / WEIGHTS_FILE, metadata={"format": "pt"})
    text = json.dumps(_peft_config(shape, base_name), indent=1, sort_keys=True)
    (folder / CONFIG_FILE).write_text(f"{text}\n", encoding="utf-8")


def _named(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    for name, module in model.named_modules():
        if isinstance(module, LoraLinear):
            yield f"{_PREFIX}{name}.lora_A.weight", module.lora_A
            yield f"{_PREFIX}{name}.lora_B.weight", module.lora_B


def _peft_config(shape: LoraShape, base_name: str) -> dict[str, Any]:
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_name,
        "r": shape.rank,
        "lora_alpha": shape.alpha,
        "lora_dropout": 0.0,
        "target_modules": list(PROJECTIONS),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "modules_to_save": None,
        "use_dora": False,
        "use_rslora": False,
    }
