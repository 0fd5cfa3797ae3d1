"""Choose the share of each GPU that vLLM may take, from what indices, encoders and other programs leave free.

vLLM takes a fixed share of a GPU's total memory and does not start where less than that is free. The memory is read by
a ``DeviceQuery``, so that the choice can be tested on a machine without a GPU.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from models.catalog import ModelCard
from models.engines.options import EngineOptions
from models.errors import EngineUnavailable

_GIB: Final = 2**30
# vLLM's own default, which a GPU of which more is free keeps.
DEFAULT_SHARE: Final = 0.92
# For what differs between the query and the start of the worker: fragments, and other programs' buffers.
_MARGIN: Final = _GIB // 2
# Buffers that NCCL allocates on each GPU before vLLM reads how much is free.
_NCCL_MARGIN: Final = _GIB
_ROUNDING: Final = 10_000
_QUERY_TIMEOUT_S: Final = 120.0


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


def query_devices(indices: Sequence[int]) -> Sequence[DeviceMemory]:
    """Read the memory in a process of its own.

    Its CUDA context costs what the worker's own will cost, is gone when it ends, and sees the same GPUs
    (``CUDA_VISIBLE_DEVICES``, MIG slices) as the worker; this process needs no context.
    """
    command = [sys.executable, "-P", "-c", _READER, *map(str, indices)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_QUERY_TIMEOUT_S, check=True)
        found = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.CalledProcessError as error:
        cause = (str(error.stderr).strip().splitlines() or ["no message"])[-1]
        raise EngineUnavailable(f"the memory of the GPU cannot be read: {cause}") from error
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        raise EngineUnavailable(f"the memory of the GPU cannot be read: {type(error).__name__}: {error}") from error
    if "rows" not in found:
        raise EngineUnavailable(
            f"the engine needs GPU {max(indices)}, but {found.get('visible', 0)} are visible: set device, "
            "tensor_parallel_size or CUDA_VISIBLE_DEVICES"
        )
    return [DeviceMemory(index, *row) for index, row in zip(indices, found["rows"], strict=True)]


def memory_share(card: ModelCard, options: EngineOptions, query: DeviceQuery) -> float:
    """Return the share of the total memory that vLLM may take on each of its GPUs.

    A share that the options set is kept. Otherwise it is vLLM's default or, where less is free, what is free without a
    margin and ``options.device_reserve_bytes``; the fullest GPU decides.

    Raises:
        EngineUnavailable: a GPU has not enough memory free; the message says what to change.
    """
    devices = query(options.device_indices)
    margin = options.device_reserve_bytes + _MARGIN + (_NCCL_MARGIN if len(devices) > 1 else 0)
    possible = min((_floor((one.free - margin) / one.total) for one in devices), default=0.0)
    if options.gpu_memory_utilization is not None:
        return _checked(options.gpu_memory_utilization, possible, devices)
    needed = (options.kv_cache_bytes or 0) + _weight_bytes(card, options) // len(devices)
    for one in devices:
        left = one.free - margin
        if left <= needed:
            raise EngineUnavailable(_too_little(one, max(left, 0), needed))
    return min(DEFAULT_SHARE, possible)


def _checked(wanted: float, possible: float, devices: Sequence[DeviceMemory]) -> float:
    for one in devices:
        if math.ceil(one.total * wanted) > one.free:
            advice = f"set it to {possible} at most, or leave it unset" if possible > 0 else "leave it unset"
            raise EngineUnavailable(
                f"gpu_memory_utilization {wanted} asks for {_gib(one.total * wanted)} of GPU {one.index}, of whose "
                f"{_gib(one.total)} indices, encoders and other programs leave {_gib(one.free)} free: {advice}"
            )
    return wanted


def _too_little(one: DeviceMemory, left: int, needed: int) -> str:
    what = f"the model's weights and kv_cache_gib need {_gib(needed)}" if needed else "the engine needs more"
    return (
        f"GPU {one.index} has {_gib(one.free)} of {_gib(one.total)} free, {_gib(left)} without the margin and what "
        f"encoders use at work, but {what}: lower kv_cache_gib, take a quantised checkpoint or more GPUs "
        "(tensor_parallel_size), or keep indices and encoders off it (retrieval.backend=faiss, retrieval.device=cpu)"
    )


def _weight_bytes(card: ModelCard, options: EngineOptions) -> int:
    """Return the bytes of a local checkpoint, 0 where its files do not say what will be loaded."""
    if not card.is_local or options.quantization is not None:
        return 0
    folder = Path(card.source)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        # Weights saved in 32 bits are loaded in 16, unless 32 are asked for.
        halves = 2 if (config.get("dtype") or config.get("torch_dtype")) == "float32" else 1
        index, single = folder / "model.safetensors.index.json", folder / "model.safetensors"
        if index.is_file():
            return int(json.loads(index.read_text(encoding="utf-8"))["metadata"]["total_size"]) // halves
        return single.stat().st_size // halves if single.is_file() else 0
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0


def _floor(share: float) -> float:
    return math.floor(share * _ROUNDING) / _ROUNDING


def _gib(num_bytes: float) -> str:
    return f"{num_bytes / _GIB:.1f} GiB"
