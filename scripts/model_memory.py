"""Compute the memory that a model takes: weights, keys and values, and the context that a GPU has room for.

    python scripts/model_memory.py [FOLDER ...]

FOLDER holds a config.json; without one, the shapes of known models. Nothing is loaded: parameters are counted on
torch's meta device, keys and values by the engine's own formula (KvShape), and of a GPU vLLM takes the share that
memory_share chooses for an empty one. 8 bits: linear layers; 4 bits: linear layers in groups of 128 with a 16-bit
scale; embeddings and head stay 16 bits.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, PreTrainedConfig, Qwen3Config

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from models.catalog import ModelCard
from models.engines.base import EngineOptions
from models.engines.transformers_engine.kv_cache import KvShape
from models.engines.vllm_engine.launch import DeviceMemory, memory_share

_GPUS: Final = (24, 48, 80, 141)
_BITS: Final = {"16 bits": 16.0, "8 bits": 8.0, "4 bits": 4.125}
_LLAMA: Final = {"num_key_value_heads": 8, "vocab_size": 128_256, "max_position_embeddings": 131_072}


def known() -> dict[str, PreTrainedConfig]:
    """The shapes of their config.json files."""
    small = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9}
    eight = {"hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32, "num_attention_heads": 32}
    seventy = {"hidden_size": 8192, "intermediate_size": 28_672, "num_hidden_layers": 80, "num_attention_heads": 64}
    qwen = {"hidden_size": 5120, "intermediate_size": 25_600, "num_hidden_layers": 64, "num_attention_heads": 64}
    tied = {"num_key_value_heads": 3, "vocab_size": 49_152, "max_position_embeddings": 8192}
    return {
        "arrowhead-small (135M)": LlamaConfig(**small, **tied, tie_word_embeddings=True),
        "Llama 3.1 8B": LlamaConfig(**eight, **_LLAMA),
        "Qwen3 32B": Qwen3Config(
            **qwen, num_key_value_heads=8, head_dim=128, vocab_size=151_936, max_position_embeddings=40_960
        ),
        "Llama 3.3 70B": LlamaConfig(**seventy, **_LLAMA),
    }


def weight_bytes(config: PreTrainedConfig) -> dict[str, float]:
    """Bytes of the weights by the bits of the linear layers."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    head = model.get_output_embeddings()
    linear = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear) and m is not head)
    rest = sum(one.numel() for one in model.parameters()) - linear
    return {name: linear * bits / 8 + rest * 2 for name, bits in _BITS.items()}


def kv_bytes(config: Any) -> int:
    """Bytes of one token's keys and values in bfloat16."""
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    shape = KvShape(config.num_hidden_layers, config.num_key_value_heads, head_dim, torch.bfloat16, torch.device("cpu"))
    return shape.bytes_per_token


def share_of(total: int) -> float:
    """What vLLM may take of a GPU of so many bytes with nothing else on it."""
    card = ModelCard(name="m", source="owner/m")
    return memory_share(card, EngineOptions(), lambda _: [DeviceMemory(0, total, total)])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    folders = parser.parse_args(argv).folders
    configs = {folder.name: AutoConfig.from_pretrained(folder) for folder in folders} or known()
    print(f"| model, weights | GB | KB per token | {' | '.join(f'{one} GB' for one in _GPUS)} |")
    print("| --- |" + " --- |" * (2 + len(_GPUS)))
    for name, config in configs.items():
        token = kv_bytes(config)
        for bits, size in weight_bytes(config).items():
            rooms = [share_of(one * 10**9) * one * 10**9 - size for one in _GPUS]
            cells = [f"{room / token / 1000:,.0f}" if room > token * 1000 else "–" for room in rooms]
            print(f"| {name}, {bits} | {size / 1e9:.1f} | {token / 1000:.0f} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
