"""How encoders are run on this machine. Decides speed and memory; vectors only as far as ``dtype`` does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from models.types import Dtype

# Called with (texts done, texts in all) after every batch. What it raises ends the work and goes to the caller.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderOptions:
    """``device`` is ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

    ``dtype`` ``auto``: bfloat16 on CUDA and on CPUs that multiply in it (AMX, AVX512-BF16), otherwise float32.
    ``batch_tokens`` bounds one batch, padding counted; None takes what suits the device. ``threads`` of a CPU forward
    pass; None leaves torch's own number. ``allow_download`` lets a hub id be fetched; otherwise only files already
    here are used. ``revision`` of a hub id: commit, tag or branch; of two towers both, as ``query,passage``; None
    takes the one the encoder is known by.
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
