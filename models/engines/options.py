"""Define how an engine runs: sizes and bounds of a whole process, not of one request.

Owns no defaults of a particular model (those are on its card) and reads no environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Literal

from models.types import Dtype

EngineKind = Literal["auto", "transformers", "vllm", "remote", "scripted"]
DEFAULT_SEQS: Final = 32


@dataclass(frozen=True, slots=True)
class LoraAdapter:
    """Name an adapter and its folder, in PEFT's format; requests choose it by the name, as a model."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions:
    """Set where the replicas of the remote engine are, and how long it waits for them.

    ``urls`` have no path: https, or http to addresses of private networks and, with ``allow_http``, to any. ``model``
    is the name under which the replicas serve the model, None takes the card's. ``ca_file`` holds the certificates that
    theirs are checked against, None takes those of the system. A replica that sends nothing for ``silence_s`` is given
    up, and so is one whose health is not reported within ``probe_timeout_s`` twice in a row. A request waits for a
    replica for ``wait_s`` at most, the start for ``start_s``.
    """

    urls: tuple[str, ...]
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    allow_http: bool = False
    connect_s: float = 3.0
    silence_s: float = 120.0
    probe_every_s: float = 2.0
    probe_timeout_s: float = 5.0
    wait_s: float = 15.0
    start_s: float = 900.0


def is_private(address: str) -> bool:
    """Return whether an IP address belongs to this machine or to a private network.

    Raises:
        ValueError: it is no IP address.
    """
    found = ip_address(address.split("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    return found.is_private and not found.is_unspecified


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Set device, dtype, limits and parsers of an engine.

    ``dtype`` ``auto`` is the card's dtype, else the checkpoint's on CUDA with vLLM, bfloat16 with transformers, and
    float32 on CPU; with transformers also bfloat16 on a CPU that has instructions for it, for weights that are saved in
    it. ``device`` is ``auto``, ``cpu``, ``cuda`` or
    ``cuda:N``. ``max_model_len`` None takes the card's context length. ``max_num_seqs`` sequences decode together,
    None leaves the number to vLLM on a GPU and is ``DEFAULT_SEQS`` elsewhere; ``max_queue`` more may wait, after which
    requests are rejected. ``kv_cache_bytes`` bounds the prefix cache
    (transformers) or the whole KV cache (vLLM); None leaves the size to the engine. ``block_size`` is the block size of
    the prefix cache in tokens. ``seed`` is the base for requests without one. ``tool_call_parser`` and
    ``reasoning_parser`` are vLLM's names for how a model writes tool calls and reasoning, ``chat_template`` is a Jinja
    file in place of the model's own; only the plain model on vLLM uses them.

    For vLLM on GPUs: ``tensor_parallel_size`` of them share each layer. ``gpu_memory_utilization`` is the share of each
    GPU's memory, None takes what is free but for ``device_reserve_bytes``, which other users of the GPU allocate at
    work. ``quantization`` is vLLM's name of a format, None reads it from the checkpoint. ``lora_adapters`` are
    served beside the model, none of a rank above ``max_lora_rank``.

    ``remote`` is for the remote engine alone, which needs it.
    """

    dtype: Dtype = "auto"
    device: str = "auto"
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    kv_cache_bytes: int | None = None
    max_queue: int = 256
    block_size: int = 32
    seed: int = 0
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    chat_template: Path | None = None
    tensor_parallel_size: int = 1
    gpu_memory_utilization: float | None = None
    device_reserve_bytes: int = 0
    quantization: str | None = None
    lora_adapters: tuple[LoraAdapter, ...] = ()
    max_lora_rank: int = 16
    remote: RemoteOptions | None = None

    def __post_init__(self) -> None:
        for name in ("max_queue", "block_size", "tensor_parallel_size", "max_lora_rank"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("max_model_len", "max_num_seqs", "kv_cache_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        share = self.gpu_memory_utilization
        if share is not None and not 0 < share <= 1:
            raise ValueError(f"gpu_memory_utilization must be above 0 and at most 1, not {share}")

    @property
    def slots(self) -> int:
        """Return how many sequences decode together where the engine does not choose the number."""
        return self.max_num_seqs or DEFAULT_SEQS

    @property
    def device_indices(self) -> tuple[int, ...]:
        """Return the GPUs that the engine uses, counted among those that the process sees."""
        first = int(self.device.removeprefix("cuda:")) if self.device.startswith("cuda:") else 0
        return tuple(range(first, first + self.tensor_parallel_size))
