"""Build vLLM's environment and arguments from a model card and our options.

Pure, and free of vLLM: what is passed to it can be read and tested without starting it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from models.catalog import ModelCard
from models.engines.options import EngineOptions
from models.engines.text import HfTokenizer
from models.errors import EngineUnavailable, UnsupportedParam
from models.torch_runtime.openmp import default_spin_count
from models.types import Dtype

# The attention kernels of the CPU build accept only multiples of this block size; they do not start with a smaller one.
_CPU_BLOCK_MULTIPLE = 32
# Without a limit vLLM's CPU build takes nine tenths of the machine's memory.
_MAX_DEFAULT_CPU_CACHE = 4 * 2**30
_SHARE_OF_MEMORY = 4


# The CPU build runs eagerly, yet compiles a helper of its logprobs: that takes seconds at the first request for them
# and ends the engine on a machine without a C++ compiler.
CPU_ENVIRONMENT = {"TORCHDYNAMO_DISABLE": "1"}


# vLLM's names for how a model writes thoughts, by the token with which it begins them.
_PARSERS: Final = {"<think>": "qwen3", "<seed:think>": "seed_oss"}


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
    if card.is_local or not card.allow_download:
        fixed |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if options.device.startswith("cuda:"):
        fixed["CUDA_VISIBLE_DEVICES"] = options.device.removeprefix("cuda:")
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


def engine_arguments(card: ModelCard, options: EngineOptions, device_type: str) -> dict[str, Any]:
    """Return the arguments of vLLM's engine, checked against the device of the installed build.

    Raises:
        EngineUnavailable: another device is requested.
        UnsupportedParam: the block size does not exist here.
    """
    _check_device(options.device, device_type)
    # The card of a hub id is built without the model's own config; vLLM reads it.
    max_model_len = options.max_model_len or (card.context_length if card.is_local else None)
    arguments: dict[str, Any] = {
        "model": card.source,
        "revision": card.revision,
        "served_model_name": card.name,
        "max_model_len": max_model_len,
        "max_num_seqs": options.max_num_seqs,
        "max_num_queued_reqs": options.max_num_seqs + options.max_queue,
        "seed": options.seed,
        "enable_prefix_caching": True,
        "scheduling_policy": "priority",
        "structured_outputs_config": _structured_outputs(options),
        "trust_remote_code": False,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "dtype": _dtype(card, options, device_type),
    }
    if options.kv_cache_bytes is not None:
        arguments["kv_cache_memory_bytes"] = options.kv_cache_bytes
    if device_type == "cpu":
        arguments |= _cpu_arguments(options)
    return arguments


def _dtype(card: ModelCard, options: EngineOptions, device_type: str) -> Dtype:
    wish = card.dtype_for(options.dtype)
    if wish == "auto":
        return "float32" if device_type == "cpu" else "bfloat16"
    return wish


def _structured_outputs(options: EngineOptions) -> dict[str, Any]:
    parser = {"reasoning_parser": options.reasoning_parser} if options.reasoning_parser else {}
    return {"backend": "xgrammar"} | parser


def _cpu_arguments(options: EngineOptions) -> dict[str, Any]:
    if options.block_size % _CPU_BLOCK_MULTIPLE:
        raise UnsupportedParam(
            f"vLLM on a CPU needs a block size that is a multiple of {_CPU_BLOCK_MULTIPLE}, not {options.block_size}",
            param="block_size",
        )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "block_size": options.block_size,
        "enforce_eager": True,
        "kv_cache_memory_bytes": options.kv_cache_bytes or min(memory // _SHARE_OF_MEMORY, _MAX_DEFAULT_CPU_CACHE),
    }


def _check_device(device: str, device_type: str) -> None:
    if device != "auto" and device.split(":")[0] != device_type:
        raise EngineUnavailable(f"device {device} was asked for, but the installed vLLM runs on {device_type}")
