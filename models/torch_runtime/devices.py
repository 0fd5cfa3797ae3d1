"""Select the torch device, and report whether the CPU computes in bfloat16."""

from __future__ import annotations

from typing import Final

import torch

from models.errors import EngineUnavailable, UnsupportedParam

DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# Without one of these a CPU emulates bfloat16, slower than float32.
_BFLOAT16: Final = ("amx_bf16", "avx512_bf16")


def torch_device(name: str) -> torch.device:
    """Return the device of that name; ``auto`` is CUDA if there is a GPU, else the CPU.

    Raises:
        UnsupportedParam: there is no device of that name.
        EngineUnavailable: CUDA is requested and there is no GPU.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UnsupportedParam(f"no such device: {name!r}", param="device") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise EngineUnavailable(f"device {name} was asked for, but torch sees no CUDA device")
    return device


def free_memory(name: str) -> int:
    """Return the bytes of a CUDA device that nobody holds, after torch gave back what it only caches.

    Raises:
        RuntimeError: the device does not say.
    """
    with torch.cuda.device(torch.device(name)):
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
    return free


def cpu_has_bfloat16() -> bool:
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in _BFLOAT16)
