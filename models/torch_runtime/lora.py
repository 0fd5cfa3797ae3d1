"""Merge a LoRA adapter in PEFT's format into a model's weights: W + scale · B A. Afterwards it costs nothing.

What an adapter may state beyond that (other kinds of adapters, ranks by layer, biases, modules saved whole) is refused:
left out without a word it would be another adapter than the one that was trained.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from models.errors import ModelNotFound

CONFIG_FILE: Final = "adapter_config.json"
WEIGHTS_FILE: Final = "adapter_model.safetensors"
_NAME: Final = re.compile(r"base_model\.model\.(.+)\.lora_([AB])(?:\.default)?\.weight")
# Options of PEFT that change what is computed, with the values that leave it as above.
_PLAIN: Final[Mapping[str, tuple[Any, ...]]] = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    "use_dora": (False, None),
    "fan_in_fan_out": (False, None),
    "modules_to_save": (None, []),
    "rank_pattern": (None, {}),
    "alpha_pattern": (None, {}),
    "target_parameters": (None, []),
    "layer_replication": (None, []),
}


@torch.inference_mode()
def merge_adapter(model: nn.Module, folder: Path) -> int:
    """Add the adapter of ``folder`` to the weights of ``model``, in place, and return how many layers it changed.

    The sum is computed in float32 and rounded once to the weight's dtype.

    Raises:
        ModelNotFound: the adapter's files are missing, damaged, of another kind or for another model.
    """
    scale = adapter_scale(folder)
    pairs = _pairs(folder)
    layers = dict(model.named_modules())
    shared = _shared_weights(model)
    for name, (down, up) in pairs.items():
        layer = layers.get(name)
        if not isinstance(layer, nn.Linear):
            raise ModelNotFound(f"{folder}: the adapter is for another model, which has a layer {name}")
        if layer.weight.data_ptr() in shared:
            raise ModelNotFound(f"{folder}: the adapter changes {name}, whose weight another layer shares")
        if layer.weight.shape != (up.shape[0], down.shape[1]) or up.shape[1] != down.shape[0]:
            raise ModelNotFound(
                f"{folder}: the adapter is for another model: {name} is {tuple(layer.weight.shape)}, not "
                f"{(up.shape[0], down.shape[1])}"
            )
        change = scale * (up.float() @ down.float())
        merged = layer.weight.float() + change.to(layer.weight.device)
        layer.weight.copy_(merged.to(layer.weight.dtype))
    return len(pairs)


def adapter_scale(folder: Path) -> float:
    """Return the factor of an adapter's products.

    Raises:
        ModelNotFound: there is no adapter, or one of a kind that cannot be merged.
    """
    file = folder / CONFIG_FILE
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        rank, alpha = int(config["r"]), float(config["lora_alpha"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelNotFound(f"{file} cannot be read: {type(error).__name__}: {error}") from error
    for option, plain in _PLAIN.items():
        if config.get(option, plain[0]) not in plain:
            raise ModelNotFound(f"{file}: {option} {config[option]!r} cannot be merged; serve the adapter with vLLM")
    if rank < 1 or not math.isfinite(alpha):
        raise ModelNotFound(f"{file}: r {rank}, lora_alpha {alpha}")
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _pairs(folder: Path) -> dict[str, tuple[Tensor, Tensor]]:
    """Return A [rank, in] and B [out, rank] by the name of their layer."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = folder / WEIGHTS_FILE
    try:
        tensors = load_file(file)
    except (OSError, SafetensorError) as error:
        raise ModelNotFound(f"{file} cannot be read: {error}") from error
    halves: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        found = _NAME.fullmatch(name)
        if found is None or tensor.ndim != 2:
            raise ModelNotFound(f"{file} holds a tensor that cannot be merged: {name} {tuple(tensor.shape)}")
        if not bool(torch.isfinite(tensor).all()):
            raise ModelNotFound(f"{file}: {name} holds numbers that are not finite")
        halves.setdefault(found[1], {})[found[2]] = tensor
    single = [name for name, half in halves.items() if len(half) != 2]
    if single or not halves:
        raise ModelNotFound(f"{file} holds {'one matrix of two for ' + single[0] if single else 'no adapter'}")
    return {name: (half["A"], half["B"]) for name, half in halves.items()}


def _shared_weights(model: nn.Module) -> set[int]:
    """Return the addresses of weights that several modules hold, as a head tied to the embedding does."""
    seen: dict[int, int] = {}
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if isinstance(weight, Tensor):
            seen[weight.data_ptr()] = seen.get(weight.data_ptr(), 0) + 1
    return {address for address, count in seen.items() if count > 1}
