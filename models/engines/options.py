"""Define how an engine runs: sizes and bounds of a whole process, not of one request.

Owns no defaults of a particular model (those are on its card) and reads no environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from models.types import Dtype

EngineKind = Literal["auto", "transformers", "vllm", "scripted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Set device, dtype, limits and parsers of an engine.

    ``dtype`` ``auto`` is the card's dtype, else bfloat16 on CUDA and float32 on CPU; with transformers also bfloat16 on
    a CPU that has instructions for it, for weights that are saved in it. ``device`` is ``auto``, ``cpu``, ``cuda`` or
    ``cuda:N``. ``max_model_len`` None takes the card's context length. ``max_num_seqs`` sequences decode together;
    ``max_queue`` more may wait, after which requests are rejected. ``kv_cache_bytes`` bounds the prefix cache
    (transformers) or the whole KV cache (vLLM); None leaves the size to the engine. ``block_size`` is the block size of
    the prefix cache in tokens. ``seed`` is the base for requests without one. ``tool_call_parser`` and
    ``reasoning_parser`` are vLLM's names for how a model writes tool calls and reasoning, ``chat_template`` is a Jinja
    file in place of the model's own; only the plain model on vLLM uses them.
    """

    dtype: Dtype = "auto"
    device: str = "auto"
    max_model_len: int | None = None
    max_num_seqs: int = 32
    kv_cache_bytes: int | None = None
    max_queue: int = 256
    block_size: int = 32
    seed: int = 0
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    chat_template: Path | None = None

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_queue", "block_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("max_model_len", "kv_cache_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
