"""Linear layers on a processor with their weights laid out for oneDNN, once, when a model is loaded.

torch hands a plain layer in float32 to a matrix routine that is slow for a few rows, as a decode step has them: three
sequences cost two to three times one. oneDNN reads its own layout at the speed of memory, whatever the number of rows
(docs/benchmarks.md). torch has the two operators for its compiler and no public name for them, so each packed layer is
held against the plain one before it takes its place.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

log = logging.getLogger(__name__)

# How far the two may differ, as a share of the largest number: sums in another order, and nothing else.
_TOLERANCE: Final = {torch.float32: 1e-4, torch.bfloat16: 2e-2}


class PackedLinear(nn.Module):
    """``nn.Linear`` without gradients. ``weight`` has a shape and a dtype for those who ask, and no numbers."""

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__()
        self.in_features = plain.in_features
        self.out_features = plain.out_features
        self.weight = nn.Parameter(torch.empty_like(plain.weight, device="meta"), requires_grad=False)
        self.bias = plain.bias
        self._packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(plain.weight.detach())

    def forward(self, rows: Tensor) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._packed, self.bias, "none", [], "")
        return result


@torch.inference_mode()
def pack_linears(model: nn.Module) -> int:
    """Replace the linear layers of ``model`` that are on a processor; returns how many.

    A weight that another layer shares (a head tied to the embedding) stays where it is and is copied. Where this
    build or processor cannot pack, or packs wrongly, layers stay as they are, and the log says so.
    """
    packed = 0
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is not nn.Linear or not _is_for_us(layer.weight):
                continue
            replacement = _packed(layer)
            if replacement is None:
                log.warning("linear layers stay unpacked from the %d. on: decoding is slower", packed + 1)
                return packed
            setattr(parent, name, replacement)
            packed += 1
    return packed


def _is_for_us(weight: Tensor) -> bool:
    can_pack: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return can_pack and weight.device.type == "cpu" and weight.dtype in _TOLERANCE


def _packed(plain: nn.Linear) -> PackedLinear | None:
    """None where it is not the same layer."""
    rows = _trial(plain)
    try:
        layer = PackedLinear(plain)
        found = layer(rows)
    except (RuntimeError, AttributeError) as error:
        log.info("cannot pack a linear layer: %s", str(error).splitlines()[0])
        return None
    expected: Any = functional.linear(rows, plain.weight, plain.bias)
    largest = expected.abs().max().float()
    apart = (found - expected).abs().max().float()
    return layer if bool(apart <= _TOLERANCE[plain.weight.dtype] * largest) else None


def _trial(plain: nn.Linear) -> Tensor:
    """Two rows [2, in], the same each time and without a draw from torch's own generator."""
    values = torch.arange(2 * plain.in_features, dtype=torch.float32)
    return torch.sin(values).reshape(2, -1).to(plain.weight.dtype)
