"""Adapter: where and in which numbers torch computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import torch

from models.encoders.options import EncoderOptions
from models.torch_devices import DTYPES, cpu_has_bfloat16, torch_device

_CPU_BATCH_TOKENS: Final = 2048
_CUDA_BATCH_TOKENS: Final = 65_536


@dataclass(frozen=True, slots=True)
class Placement:
    device: torch.device
    dtype: torch.dtype
    batch_tokens: int
    threads: int | None

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Sets the number of threads for a forward pass, and puts it back: others of this process compute too."""
        if self.threads is None or self.device.type != "cpu":
            yield
            return
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def place(options: EncoderOptions) -> Placement:
    """Raises UnsupportedParam for no such device, EngineUnavailable for CUDA where there is none."""
    device = torch_device(options.device)
    on_cuda = device.type == "cuda"
    return Placement(
        device,
        _auto_dtype(device) if options.dtype == "auto" else DTYPES[options.dtype],
        options.batch_tokens or (_CUDA_BATCH_TOKENS if on_cuda else _CPU_BATCH_TOKENS),
        options.threads,
    )


def _auto_dtype(device: torch.device) -> torch.dtype:
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    return torch.bfloat16 if device.type == "cpu" and cpu_has_bfloat16() else torch.float32
