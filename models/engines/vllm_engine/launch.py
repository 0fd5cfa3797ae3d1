"""Build vLLM's environment and arguments from a model card, our options and the memory that GPUs have free.

Free of vLLM: what is passed to it can be read and tested without starting it. vLLM takes a fixed share of a GPU's total
memory and does not start where less than that is free. The memory is read by a ``DeviceQuery``, so that the choice can
be tested on a machine without a GPU.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from models.card import ModelCard
from models.catalog import context_length, vocabulary_size
from models.engines.base import EngineOptions, LoraAdapter
from models.engines.tokenizer import HfTokenizer
from models.engines.vllm_engine.memory_need import MemoryNeed, memory_need
from models.errors import EngineUnavailable, ModelNotFound, UnsupportedParam
from models.files import parse_json
from models.torch_runtime.memory import machine_memory
from models.torch_runtime.openmp import default_spin_count
from models.types import Dtype

_GIB: Final = 2**30
# vLLM's own default, which a GPU of which more is free keeps.
DEFAULT_SHARE: Final = 0.92
# With this length vLLM takes the model's own or, where less fits into the memory, the longest that does.
FITTED: Final = -1
# For what differs between the query and the start of the worker: fragments, and other programs' buffers.
_MARGIN: Final = _GIB // 2
# Buffers that NCCL allocates on each GPU before vLLM reads how much is free.
_NCCL_MARGIN: Final = _GIB
_ROUNDING: Final = 10_000
_QUERY_TIMEOUT_S: Final = 120.0
# An engine that has just ended returns its memory bit by bit: read until no more comes, for 15 s at most.
_READER: Final = """
import json, sys, time
import torch
indices, deadline = [int(one) for one in sys.argv[1:]], time.monotonic() + 15
count = torch.cuda.device_count()
if max(indices) >= count:
    print(json.dumps({"visible": count}))
    sys.exit()
rows = [torch.cuda.mem_get_info(index) for index in indices]
while time.monotonic() < deadline:
    time.sleep(0.5)
    before, rows = rows, [torch.cuda.mem_get_info(index) for index in indices]
    if all(now[0] <= then[0] + 2**24 for now, then in zip(rows, before)):
        break
print(json.dumps({"rows": rows}))
"""
# Up to so many cores (measured with two), a core that vLLM keeps for its scheduler is missed by the model.
_FEW_CORES: Final = 4
# Where the operator sets it, vLLM binds its worker to these cores.
_BINDING: Final = "VLLM_CPU_OMP_THREADS_BIND"
# The executor's path, since vLLM replaces the name "uni" by "mp" on a CPU.
_ONE_PROCESS: Final = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
# Without a limit vLLM's CPU build takes nine tenths of the machine's memory.
_MAX_DEFAULT_CPU_CACHE = 4 * 2**30
_SHARE_OF_MEMORY = 4
# vLLM's default number of sequences on the largest GPUs.
_MOST_DEFAULT_SEQS = 1024
# Where vLLM finds our mask of padded ids, and the mask the size of the tokenizer's vocabulary.
PADDING_MASK = "models.engines.vllm_engine.padding_mask:PaddingMask"
VOCABULARY_KEY = "arrowhead_vocabulary"
_MOST_LORAS_IN_A_BATCH = 8
# The ranks that vLLM has buffers for.
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
# The CPU build runs eagerly, yet compiles a helper of its logprobs: that takes seconds at the first request for them
# and ends the engine on a machine without a C++ compiler.
CPU_ENVIRONMENT = {"TORCHDYNAMO_DISABLE": "1"}
# vLLM's names for how a model writes thoughts, by the token with which it begins them.
_PARSERS: Final = {"<think>": "qwen3", "<seed:think>": "seed_oss"}


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Hold the bytes of one GPU; ``index`` counts the GPUs that this process sees."""

    index: int
    free: int
    total: int


class DeviceQuery(Protocol):
    """Read the memory of GPUs."""

    def __call__(self, indices: Sequence[int]) -> Sequence[DeviceMemory]:
        """Return the memory of the GPUs, in order.

        Raises:
            EngineUnavailable: there is no such GPU, or its memory cannot be read.
        """
        ...


def query_devices(indices: Sequence[int]) -> Sequence[DeviceMemory]:
    """Read the memory in a process of its own.

    Its CUDA context costs what the worker's own will cost, is gone when it ends, and sees the same GPUs
    (``CUDA_VISIBLE_DEVICES``, MIG slices) as the worker; this process needs no context.
    """
    command = [sys.executable, "-P", "-c", _READER, *map(str, indices)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_QUERY_TIMEOUT_S, check=True)
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.CalledProcessError as error:
        cause = (str(error.stderr).strip().splitlines() or ["no message"])[-1]
        raise EngineUnavailable(f"the memory of the GPU cannot be read: {cause}") from error
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        raise EngineUnavailable(f"the memory of the GPU cannot be read: {type(error).__name__}: {error}") from error
    if "rows" not in answer:
        raise EngineUnavailable(
            f"the engine needs GPU {max(indices)}, but {answer.get('visible', 0)} are visible: set device, "
            "tensor_parallel_size or CUDA_VISIBLE_DEVICES"
        )
    return [DeviceMemory(index, *row) for index, row in zip(indices, answer["rows"], strict=True)]


def with_reasoning_parser(options: EngineOptions, tokenizer: HfTokenizer) -> EngineOptions:
    """Return the options with the reader of thoughts that the model needs, where they name none.

    Without one, vLLM's own layer gives a model's thoughts as its answer. "" in the options means none.
    """
    if options.reasoning_parser is not None or tokenizer.thinking is None or not tokenizer.thinks_by_default:
        return options
    return replace(options, reasoning_parser=_PARSERS.get(tokenizer.thinking.start_text))


def reject_unsupported(environ: Mapping[str, str]) -> None:
    """Reject settings that take the Python side of vLLM, and so this engine, out of the request path.

    Raises:
        EngineUnavailable: such a setting is on.
    """
    if environ.get("VLLM_USE_RUST_FRONTEND", "0").strip() not in ("", "0"):
        raise EngineUnavailable(
            "VLLM_USE_RUST_FRONTEND is set: with it requests go round the Python engine and calls cannot be "
            "intercepted; unset it"
        )


def environment(card: ModelCard, options: EngineOptions, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to set before vLLM is imported.

    They stay set: its child processes and later imports read them. No usage is reported, and nothing listens on, or
    looks up, an address beyond loopback. A variable that does not concern privacy keeps the value that the operator has
    set.
    """
    fixed = {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_DO_NOT_TRACK": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_LOOPBACK_IP": "127.0.0.1",
    }
    if options.batch_invariant:
        fixed["VLLM_BATCH_INVARIANT"] = "1"
    if card.is_local or not card.allow_download:
        fixed |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    defaults = {
        "VLLM_LOGGING_LEVEL": "ERROR",
        # Raised by transitive dependencies, once per process.
        "PYTHONWARNINGS": "ignore::FutureWarning",
        "GLOO_SOCKET_IFNAME": "lo",
        # Forking a process that runs threads, as this one does, can deadlock in the child.
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    }
    return (
        {name: value for name, value in defaults.items() if name not in environ} | default_spin_count(environ) | fixed
    )


def engine_arguments(
    card: ModelCard, options: EngineOptions, device_type: str, query: DeviceQuery = query_devices
) -> dict[str, Any]:
    """Return the arguments of vLLM's engine, checked against the device of the installed build.

    ``query`` reads the memory of GPUs; it is not called for a CPU.

    Raises:
        EngineUnavailable: another device is requested, or a GPU has not enough memory free.
        UnsupportedParam: an option, as the number of devices, does not exist here.
    """
    _check_device(options.device, device_type)
    if options.hold_during_calls_s and options.draft_tokens:
        raise UnsupportedParam(
            "hold_during_calls_s: not beside draft_tokens: what was drafted behind a call would stay in the sequence",
            param="hold_during_calls_s",
        )
    arguments: dict[str, Any] = {
        "model": card.source,
        "revision": card.revision,
        "served_model_name": card.name,
        "max_model_len": options.max_model_len or _own_context(card) or FITTED,
        "max_num_queued_reqs": (options.max_num_seqs or _MOST_DEFAULT_SEQS) + options.max_queue,
        "seed": options.seed,
        "enable_prefix_caching": True,
        "scheduling_policy": "priority",
        "structured_outputs_config": _structured_outputs(options),
        "trust_remote_code": False,
        # "auto" would go on to pickled weights, which can run code when read.
        "load_format": "safetensors",
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "dtype": _dtype(card, options, device_type),
    }
    if options.hold_during_calls_s:
        # A step that is begun before the last one's token is known would advance a hybrid's state beyond the call.
        arguments["async_scheduling"] = False
    if options.kv_cache_bytes is not None:
        arguments["kv_cache_memory_bytes"] = options.kv_cache_bytes
    if options.quantization is not None:
        arguments["quantization"] = options.quantization
    if options.lora_adapters:
        arguments |= _lora_arguments(options)
    if device_type == "cpu":
        return arguments | _cpu_arguments(options, memory_need(card, options, arguments["dtype"]))
    return arguments | _gpu_arguments(card, options, query)


def _own_context(card: ModelCard) -> int | None:
    """Return the length that the card sets, None where it only repeats what the model's config has.

    The card of a hub id is built without that config; vLLM reads it.
    """
    if not card.is_local:
        return None
    try:
        derived = context_length(Path(card.source))
    except ModelNotFound:
        return card.context_length
    return card.context_length if card.context_length < derived else None


def with_adapter(options: EngineOptions, card: ModelCard) -> EngineOptions:
    """Return the options with the card's own adapter as the last one."""
    if card.adapter is None:
        return options
    own = LoraAdapter(f"{card.name}+{card.adapter.name}", card.adapter)
    return replace(options, lora_adapters=(*options.lora_adapters, own))


def check_adapters(options: EngineOptions) -> None:
    """Check that each adapter is there, before minutes are spent on a start.

    Raises:
        ModelNotFound: a folder is none of an adapter.
    """
    for adapter in options.lora_adapters:
        if not (adapter.path / "adapter_config.json").is_file():
            raise ModelNotFound(f"lora_adapters: {adapter.name} has no adapter_config.json in {adapter.path}")


def _adapter_rank(folder: Path) -> int:
    """Return the rank in an adapter's config, 1 where it cannot be read: vLLM then says what is wrong."""
    try:
        return int(parse_json((folder / "adapter_config.json").read_text(encoding="utf-8"))["r"])
    except (OSError, ValueError, KeyError, TypeError):
        return 1


def padding_arguments(vocabulary: int) -> dict[str, Any]:
    """Return the arguments that keep ids from ``vocabulary`` on, which have no token, from being sampled."""
    return {"logits_processors": [PADDING_MASK], "additional_config": {VOCABULARY_KEY: vocabulary}}


def draft_arguments(card: ModelCard, most: int, vocabulary: int) -> dict[str, Any]:
    """Return the arguments with which vLLM drafts up to ``most`` tokens from where the last ones stood before.

    Raises:
        UnsupportedParam: the model has ids beyond ``vocabulary``, or its config cannot be read: vLLM takes no mask of
            them beside drafts.
    """
    if vocabulary_size(card.source) != vocabulary:
        raise UnsupportedParam(
            f"draft_tokens: vLLM cannot keep ids without a token from being drafted, and {card.name} is not known to "
            f"have {vocabulary} ids alone; leave it unset",
            param="draft_tokens",
        )
    lookup = {"method": "ngram", "num_speculative_tokens": most, "prompt_lookup_min": 2, "prompt_lookup_max": 4}
    return {"speculative_config": lookup}


def _dtype(card: ModelCard, options: EngineOptions, device_type: str) -> Dtype:
    wish = card.dtype_for(options.dtype)
    if wish == "auto":
        # On a GPU vLLM takes the checkpoint's own, which a quantised one may require, in a type that the GPU computes.
        return "float32" if device_type == "cpu" else "auto"
    return wish


def _structured_outputs(options: EngineOptions) -> dict[str, Any]:
    parser = {"reasoning_parser": options.reasoning_parser} if options.reasoning_parser else {}
    return {"backend": "xgrammar"} | parser


def _cpu_arguments(options: EngineOptions, need: MemoryNeed) -> dict[str, Any]:
    if options.tensor_parallel_size > 1:
        raise UnsupportedParam(
            f"tensor_parallel_size {options.tensor_parallel_size} needs GPUs, and the installed vLLM runs on a CPU",
            param="tensor_parallel_size",
        )
    if options.batch_invariant:
        raise UnsupportedParam(
            "batch_invariant needs a GPU: vLLM has no such kernels for a CPU; the transformers engine needs none there",
            param="batch_invariant",
        )
    memory = machine_memory().total
    cache = options.kv_cache_bytes or min(memory // _SHARE_OF_MEMORY, _MAX_DEFAULT_CPU_CACHE)
    if need.weights + cache > memory:
        raise EngineUnavailable(
            f"the model's weights need {_gib(need.weights)} and the KV cache {_gib(cache)}, but this machine has "
            f"{_gib(memory)} of memory: take a smaller model, dtype=bfloat16 or a lower kv_cache_gib"
        )
    _check_context(need, cache, "the KV cache is", options)
    # vLLM computes in a process of its own, bound to its cores, and keeps one core for the scheduler: of two cores that
    # leaves one. In the scheduler's process both compute, and one process less has to import everything.
    is_small = _num_cores() <= _FEW_CORES and _BINDING not in os.environ
    return ({"distributed_executor_backend": _ONE_PROCESS} if is_small else {}) | {
        "max_num_seqs": options.slots,
        "block_size": options.block_size,
        "enforce_eager": True,
        "kv_cache_memory_bytes": cache,
    }


def _num_cores() -> int:
    """Return how many cores this process may use; macOS knows only those of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_context(need: MemoryNeed, room: int, what: str, options: EngineOptions) -> None:
    """Refuse a length of which not even one sequence fits; vLLM would, after it has loaded the weights."""
    if need.keys_and_values <= room:
        return
    fits = room // need.token
    wish = f"set max_model_len to {fits} at most, or leave it unset" if options.max_model_len else "raise kv_cache_gib"
    raise EngineUnavailable(
        f"a sequence of {need.context} tokens needs {_gib(need.keys_and_values)} of keys and values, and {what} "
        f"{_gib(room)}, for {fits} tokens: {wish}, take a quantised checkpoint or more memory"
    )


def _gpu_arguments(card: ModelCard, options: EngineOptions, query: DeviceQuery) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "tensor_parallel_size": options.tensor_parallel_size,
        "gpu_memory_utilization": memory_share(card, options, query),
    }
    # Without a number vLLM chooses by the size of the GPU.
    if options.max_num_seqs is not None:
        arguments["max_num_seqs"] = options.max_num_seqs
    # Counted within CUDA_VISIBLE_DEVICES, which stays as the operator has set it.
    if options.device_indices[0]:
        arguments["device_ids"] = list(options.device_indices)
    return arguments


def _lora_arguments(options: EngineOptions) -> dict[str, Any]:
    largest = max(_adapter_rank(adapter.path) for adapter in options.lora_adapters)
    rank = next((rank for rank in LORA_RANKS if rank >= largest), None)
    if rank is None:
        raise UnsupportedParam(
            f"an adapter may have rank {LORA_RANKS[-1]} at most, not {largest}", param="lora_adapters"
        )
    number = len(options.lora_adapters)
    # Each in a batch costs memory of the GPU; further ones wait in the machine's memory for a place.
    return {
        "enable_lora": True,
        "max_lora_rank": rank,
        "max_loras": min(number, _MOST_LORAS_IN_A_BATCH),
        "max_cpu_loras": number,
    }


def _check_device(device: str, device_type: str) -> None:
    if device != "auto" and device.split(":")[0] != device_type:
        raise EngineUnavailable(f"device {device} was asked for, but the installed vLLM runs on {device_type}")


def memory_share(card: ModelCard, options: EngineOptions, query: DeviceQuery) -> float:
    """Return the share of the total memory that vLLM may take on each of its GPUs.

    A share that the options set is kept. Otherwise it is vLLM's default or, where less is free, what is free without a
    margin and ``options.device_reserve_bytes``; the fullest GPU decides.

    Raises:
        EngineUnavailable: a GPU has not enough memory free; the message says what to change.
    """
    devices, need = query(options.device_indices), memory_need(card, options, _dtype(card, options, "cuda"))
    margin = options.device_reserve_bytes + _MARGIN + (_NCCL_MARGIN if len(devices) > 1 else 0)
    possible = min((_floor((device.free - margin) / device.total) for device in devices), default=0.0)
    weights = need.weights // max(len(devices), 1)
    if options.gpu_memory_utilization is not None:
        share = _checked(options.gpu_memory_utilization, possible, devices)
    else:
        needed = (options.kv_cache_bytes or need.keys_and_values) + weights
        for device in devices:
            left = device.free - margin
            if left <= needed:
                raise EngineUnavailable(_too_little(device, max(left, 0), need, weights, options))
        share = min(DEFAULT_SHARE, possible)
    for device in devices:
        room = int(device.total * share) - weights
        if room <= 0:
            raise EngineUnavailable(
                f"gpu_memory_utilization {share} is {_gib(device.total * share)} of GPU {device.index}, but the "
                f"model's weights need {_gib(weights)}: raise it, take a quantised checkpoint or more GPUs"
            )
        _check_context(need, options.kv_cache_bytes or room, f"GPU {device.index} has room for", options)
    return share


def _checked(requested: float, possible: float, devices: Sequence[DeviceMemory]) -> float:
    for device in devices:
        if math.ceil(device.total * requested) > device.free:
            advice = f"set it to {possible} at most, or leave it unset" if possible > 0 else "leave it unset"
            raise EngineUnavailable(
                f"gpu_memory_utilization {requested} asks for {_gib(device.total * requested)} of GPU {device.index}, "
                f"of whose {_gib(device.total)} indices, encoders and other programs leave {_gib(device.free)} free: "
                f"{advice}"
            )
    return requested


def _too_little(device: DeviceMemory, left: int, need: MemoryNeed, weights: int, options: EngineOptions) -> str:
    cache = options.kv_cache_bytes or need.keys_and_values
    of = "kv_cache_gib" if options.kv_cache_bytes else f"a sequence of {need.context} tokens"
    what = f"the model's weights need {_gib(weights)} and {of} {_gib(cache)}" if weights or cache else "it needs more"
    return (
        f"GPU {device.index} has {_gib(device.free)} of {_gib(device.total)} free, {_gib(left)} without the margin and "
        f"what encoders use at work, but {what}: lower kv_cache_gib or max_model_len, take a quantised checkpoint or "
        "more GPUs (tensor_parallel_size), or keep indices and encoders off it (retrieval.backend=faiss, "
        "retrieval.device=cpu)"
    )


def _floor(share: float) -> float:
    return math.floor(share * _ROUNDING) / _ROUNDING


def _gib(num_bytes: float) -> str:
    return f"{num_bytes / _GIB:.1f} GiB"
