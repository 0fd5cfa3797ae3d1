"""Select the device and the dtype in which torch computes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import torch

from models.encoders.base import EncoderOptions
from models.torch_runtime.devices import DTYPES, cpu_has_bfloat16, torch_device


class FifoLock:
    """Exclude other threads, and keep a thread that releases and re-acquires from overtaking one that waits.

    Bulk encoding acquires the lock once per batch; with a plain lock it would nearly always win and starve a query.
    """

    def __init__(self) -> None:
        self._entry_lock = threading.Lock()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        # A waiting thread holds the outer lock, so a thread that releases the inner lock queues after it.
        with self._entry_lock:
            self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


_CPU_BATCH_TOKENS: Final = 2048
_CUDA_BATCH_TOKENS: Final = 65_536


@dataclass(frozen=True, slots=True)
class Placement:
    """Hold the device, dtype, batch size and thread count of an encoder."""

    device: torch.device
    dtype: torch.dtype
    batch_tokens: int
    threads: int | None

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Set the thread count for a forward pass and restore it after, since the process computes elsewhere too."""
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
    """Select the placement for the options.

    Raises:
        UnsupportedParam: there is no such device.
        EngineUnavailable: CUDA is requested and there is none.
    """
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
