"""Define how encoders run on this machine.

The options affect speed and memory; vectors only through ``dtype``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from models.types import Dtype

# Called with (texts done, total texts) after every batch. An error that it raises ends the work and propagates.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderOptions:
    """Set device, dtype, batch size, threads and file source of an encoder.

    ``device`` is ``auto``, ``cpu``, ``cuda`` or ``cuda:N``. ``dtype`` ``auto``: bfloat16 on CUDA and on CPUs that
    compute in it (AMX, AVX512-BF16), otherwise float32. ``batch_tokens`` bounds one batch, padding counted; None
    selects a value for the device. ``threads`` of a CPU forward pass; None leaves torch's own number.
    ``allow_download`` lets a hub id be downloaded; otherwise only local files are used. ``revision`` of a hub id:
    commit, tag or branch; of two towers both, as ``query,passage``; None selects the revision of the known encoder.
    """

    device: str = "auto"
    dtype: Dtype = "auto"
    batch_tokens: int | None = None
    threads: int | None = None
    allow_download: bool = False
    revision: str | None = None

    def __post_init__(self) -> None:
        for name in ("batch_tokens", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
