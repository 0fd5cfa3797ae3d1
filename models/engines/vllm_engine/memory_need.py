"""Compute what a local checkpoint needs of a device's memory, from its files alone: weights, keys and values.

What the files do not say counts as nothing: an estimate may refuse only what is certain not to fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.files import parse_json
from models.types import Dtype

# Instructions, a question and its evidence; an operator who wants less sets max_model_len.
LEAST_CONTEXT: Final = 2048
_SIZES: Final = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2}
# Keys of configs whose layers keep something else than keys and values of every token.
_OTHER_LAYERS: Final = (
    "kv_lora_rank",
    "layers_block_type",
    "hybrid_override_pattern",
    "attn_layer_period",
    "linear_attn_config",
    "num_kv_shared_layers",
    "attn_type_list",
)


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Hold bytes of the weights, and of one token's keys and values on one of the devices (0: not known).

    ``context`` is the length in tokens of which one sequence has to fit.
    """

    weights: int = 0
    token: int = 0
    context: int = 0

    @property
    def keys_and_values(self) -> int:
        return self.token * self.context


def memory_need(card: ModelCard, options: EngineOptions, dtype: Dtype) -> MemoryNeed:
    """Return what the card's model needs when it is loaded in ``dtype``, weights on all devices together."""
    if not card.is_local:
        return MemoryNeed()
    folder = Path(card.source)
    try:
        config = parse_json((folder / "config.json").read_text(encoding="utf-8"))
        text = config.get("text_config") or config
        saved = str(text.get("dtype") or text.get("torch_dtype") or config.get("torch_dtype") or "bfloat16")
        context = options.max_model_len or min(card.context_length, LEAST_CONTEXT)
        token = _token_bytes(text, _loaded_size(dtype), options.tensor_parallel_size)
        if "quantization_config" in config:
            # The checkpoint may keep its keys and values in 8 bits.
            return MemoryNeed(_saved_bytes(folder), token // 2, context)
        weights = _saved_bytes(folder) * _loaded_size(dtype) // _SIZES.get(saved, 2)
        return MemoryNeed(0 if options.quantization else weights, token, context)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return MemoryNeed()


def _loaded_size(dtype: Dtype) -> int:
    """Return the bytes of a number; with ``auto`` vLLM loads those saved in 32 bits in 16."""
    return _SIZES.get(dtype, 2)


def _saved_bytes(folder: Path) -> int:
    index, single = folder / "model.safetensors.index.json", folder / "model.safetensors"
    if index.is_file():
        return int(parse_json(index.read_text(encoding="utf-8"))["metadata"]["total_size"])
    return single.stat().st_size if single.is_file() else 0


def _token_bytes(config: dict[str, Any], size: int, devices: int) -> int:
    heads = config.get("num_key_value_heads")
    if not heads or any(config.get(key) for key in _OTHER_LAYERS):
        return 0
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return int(2 * _full_layers(config) * max(heads // devices, 1) * head_dim * size)


def _full_layers(config: dict[str, Any]) -> int:
    """Return how many layers keep keys and values of every token, 0 where that is not known."""
    kinds = config.get("layer_types")
    if kinds:
        return int(kinds.count("full_attention"))
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        return 0
    return int(config["num_hidden_layers"]) // int(config.get("full_attention_interval") or 1)
