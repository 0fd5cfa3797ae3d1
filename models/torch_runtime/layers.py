"""Pack the weights of linear layers on the CPU for oneDNN, once, when a model is loaded.

torch computes a plain float32 layer with a matrix routine that is slow for a few rows, as in a decode step: three
sequences cost two to three times as much as one. oneDNN reads its own layout at the speed of memory, whatever the
number of rows. torch has the two operators for its compiler and no public name for them, so each
packed layer is compared with the plain one before it replaces it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention

NAME = "arrowhead_grouped"
# Multiples with which a row's result in bfloat16 does not depend, bit for bit, on how many others are computed with it
# (measured on Zen 4 with torch 2.13): positions of one attention, and columns of keys and values. In float32 the last
# bit may still change with the columns.
POSITIONS: Final = 8
COLUMNS: Final = 32


def register() -> None:
    """Register the attention with transformers under ``NAME``; idempotent."""
    # Here, since importing it takes seconds and an encoder needs only the packing below.
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, grouped_attention)


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Hold the keys and values of the rows ``first`` to ``end`` of a batch, [rows, shared heads, width, dim].

    ``mask`` [rows, 1, 1, width] is added to the scores.
    """

    first: int
    end: int
    keys: Tensor
    values: Tensor
    mask: Tensor | None


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    *,
    row_batches: Callable[[], Iterable[RowBatch]] | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Compute attention as transformers calls it, and return [rows, tokens, heads, dim].

    ``query`` is [rows, heads, tokens, dim], ``key`` and ``value`` [rows, shared heads, width, dim]. ``attention_mask``
    [rows, 1, tokens, width] is added to the scores; it carries the causality. ``row_batches``, for one token of each
    row, takes the place of all three: each batch has keys and values of its own width.

    Raises:
        ValueError: there is no mask for more than one token.
    """
    tokens = query.shape[2]
    if row_batches is not None:
        parts = [
            by_layout(query[batch.first : batch.end], batch.keys, batch.values, batch.mask, scaling)
            for batch in row_batches()
        ]
        return torch.cat(parts).transpose(1, 2).contiguous(), None
    if attention_mask is None and tokens > 1:
        raise ValueError("several tokens need a mask that says what each may see")
    # For several tokens by_layout repeats the mask per head of a group; torch's kernel does not, but not on every GPU.
    attend = by_kernel if tokens > 1 and query.device.type == "cpu" else by_layout
    output = attend(query, key, value, attention_mask, scaling)
    return output.transpose(1, 2).contiguous(), None


def by_kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None) -> Tensor:
    """Compute attention with torch's own sharing of heads; shapes as of ``by_layout``."""
    return _attend(query, key, value, mask, scaling)


def by_layout(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None) -> Tensor:
    """Compute attention with a group's query heads as further query positions of their shared head.

    Keys and values are read once. Shapes as of ``grouped_attention``; returns [rows, heads, tokens, dim].
    """
    rows, heads, tokens, dim = query.shape
    group = heads // key.shape[1]
    if mask is not None and group > 1:
        mask = mask.repeat(1, 1, group, 1)
    positions = query.reshape(rows, heads // group, group * tokens, dim)
    return _attend(positions, key, value, mask, scaling).reshape(rows, heads, tokens, dim)


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None) -> Tensor:
    """Compute attention with a number of positions for which the CPU's kernel adds in one order, whatever it is.

    For fewer than eight positions of a block it takes other routines, which round differently.
    """
    positions = query.shape[2]
    missing = -positions % POSITIONS if query.device.type == "cpu" else 0
    if missing:
        query = functional.pad(query, (0, 0, 0, missing))
        mask = None if mask is None else functional.pad(mask, (0, 0, 0, missing))
    output = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling, enable_gqa=True)
    return output[:, :, :positions]


log = logging.getLogger(__name__)
# The largest difference as a share of the largest number: that of sums in another order, and nothing else.
_TOLERANCE: Final = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
# Rows by which a processor is tried, together and apart: one with AMX rounds alike for 33 rows at most.
_ROWS: Final = 64


class PackedLinear(nn.Module):
    """Compute ``nn.Linear`` from packed weights, without gradients.

    ``weight`` has the shape and dtype of the plain layer's weight, but no data.
    """

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__()
        self.in_features = plain.in_features
        self.out_features = plain.out_features
        self.weight = nn.Parameter(torch.empty_like(plain.weight, device="meta"), requires_grad=False)
        self.bias = plain.bias
        self._packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(plain.weight.detach())

    def forward(self, rows: Tensor) -> Tensor:
        if rows.numel() == self.in_features:
            # A single row is computed by another routine, which rounds differently: a second one costs nothing.
            return self._computed(rows.reshape(1, -1).expand(2, -1).contiguous())[:1].reshape(*rows.shape[:-1], -1)
        return self._computed(rows)

    def _computed(self, rows: Tensor) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._packed, self.bias, "none", [], "")
        return result


@torch.inference_mode()
def pack_linears(model: nn.Module) -> int:
    """Replace the linear layers of ``model`` that are on the CPU with packed ones; return how many.

    A weight that another layer shares (a head tied to the embedding) stays in place and is copied. Where this build or
    processor cannot pack, or packs incorrectly, layers stay as they are and a warning is logged. Weights that stay are
    copied out of the file that they may be a map of: its pages would stay in memory beside the packed ones.
    """
    packed, uneven = 0, dict[tuple[int, int], bool]()
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
            shape = (layer.in_features, layer.out_features)
            if shape not in uneven:
                uneven[shape] = _rounds_by_rows(replacement, _trial(layer, _ROWS))
    for tensor in (*model.parameters(), *model.buffers()) if packed else ():
        if tensor.device.type == "cpu":
            tensor.data = tensor.data.clone()
    if any(uneven.values()):
        log.info("this processor rounds a row by how many are computed with it: neighbours may change an answer")
    return packed


def _rounds_by_rows(layer: PackedLinear, rows: Tensor) -> bool:
    return not torch.equal(layer(rows), torch.cat([layer(part) for part in torch.split(rows, _ROWS // 8)]))


def _is_for_us(weight: Tensor) -> bool:
    can_pack: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return can_pack and weight.device.type == "cpu" and weight.dtype in _TOLERANCE


def _packed(plain: nn.Linear) -> PackedLinear | None:
    """Return the packed layer, or None if packing fails or changes the result."""
    rows = _trial(plain)
    try:
        layer = PackedLinear(plain)
        result = layer(rows)
    except (RuntimeError, AttributeError) as error:
        log.info("cannot pack a linear layer: %s", str(error).splitlines()[0])
        return None
    expected: Any = functional.linear(rows, plain.weight, plain.bias)
    largest = expected.abs().max().float()
    apart = (result - expected).abs().max().float()
    return layer if bool(apart <= _TOLERANCE[plain.weight.dtype] * largest) else None


def _trial(plain: nn.Linear, number: int = 2) -> Tensor:
    """Return test rows [number, in], the same each time and without a draw from torch's own generator."""
    values = torch.arange(number * plain.in_features, dtype=torch.float32)
    return torch.sin(values).reshape(number, -1).to(plain.weight.dtype)
