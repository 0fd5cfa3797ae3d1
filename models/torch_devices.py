"""The device that a name stands for. The one place that asks torch whether there is a card."""

from __future__ import annotations

import torch

from models.errors import EngineUnavailable, UnsupportedParam


def torch_device(name: str) -> torch.device:
    """``auto`` is CUDA where there is a card, else the processor.

    Raises:
        UnsupportedParam: no such device. EngineUnavailable: a card was asked for and there is none.
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
