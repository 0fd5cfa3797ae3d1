"""What the files of a checkpoint say of the memory that it needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.vllm_engine.memory_need import LEAST_CONTEXT, MemoryNeed, memory_need

CONFIG = {"num_hidden_layers": 4, "num_key_value_heads": 2, "num_attention_heads": 8, "hidden_size": 256}
# Keys and values of 4 layers with 2 heads of 32 numbers in 16 bits.
TOKEN = 2 * 4 * 2 * 32 * 2


def need(folder: Path, options: EngineOptions | None = None, **config: Any) -> MemoryNeed:
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    (folder / "model.safetensors").write_bytes(b"x" * 1000)
    card = ModelCard(name="m", source=str(folder), context_length=100_000)
    return memory_need(card, options or EngineOptions(), "bfloat16")


def test_a_model_with_full_attention_is_counted(tmp_path: Path) -> None:
    """Of the length that is set, otherwise of the least that is of use."""
    assert need(tmp_path) == MemoryNeed(1000, TOKEN, LEAST_CONTEXT)
    assert need(tmp_path, EngineOptions(max_model_len=10)).keys_and_values == 10 * TOKEN


@pytest.mark.parametrize(
    ("config", "token"),
    [
        ({"head_dim": 64}, 2 * TOKEN),
        ({"text_config": CONFIG | {"num_hidden_layers": 8}}, 2 * TOKEN),
        ({"layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"]}, TOKEN // 4),
        ({"full_attention_interval": 4}, TOKEN // 4),
        ({"quantization_config": {"quant_method": "fp8"}}, TOKEN // 2),
        ({"sliding_window": 4096, "use_sliding_window": False}, TOKEN),
        ({"sliding_window": 4096}, 0),
        ({"kv_lora_rank": 512}, 0),
        ({"num_key_value_heads": None}, 0),
    ],
)
def test_layers_that_keep_less_count_less_and_unknown_ones_nothing(
    tmp_path: Path, config: dict[str, Any], token: int
) -> None:
    """A hybrid keeps keys and values in its layers of full attention alone."""
    assert need(tmp_path, **config).token == token


def test_devices_share_the_heads(tmp_path: Path) -> None:
    """Down to one head on each."""
    assert need(tmp_path, EngineOptions(tensor_parallel_size=2)).token == TOKEN // 2
    assert need(tmp_path, EngineOptions(tensor_parallel_size=4)).token == TOKEN // 2


def test_weights_count_in_the_type_that_they_are_loaded_in(tmp_path: Path) -> None:
    """Those quantised while loading are not known."""
    card = ModelCard(name="m", source=str(tmp_path))
    need(tmp_path, torch_dtype="float32")
    assert memory_need(card, EngineOptions(), "auto").weights == 500
    assert memory_need(card, EngineOptions(), "float32").weights == 1000
    assert memory_need(card, EngineOptions(quantization="fp8"), "auto").weights == 0


def test_files_that_say_nothing_need_nothing(tmp_path: Path) -> None:
    """A hub id, no config, another form of config."""
    assert memory_need(ModelCard(name="m", source="owner/m"), EngineOptions(), "auto") == MemoryNeed()
    assert memory_need(ModelCard(name="m", source=str(tmp_path)), EngineOptions(), "auto") == MemoryNeed()
    assert need(tmp_path, num_hidden_layers="four") == MemoryNeed()
