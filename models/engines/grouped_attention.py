"""Compute attention for query heads that share key and value heads, without copying these for every query head.

Registered with transformers under ``NAME``.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

NAME = "arrowhead_grouped"


def register() -> None:
    """Register the attention with transformers under ``NAME``; idempotent."""
    AttentionInterface.register(NAME, grouped_attention)


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Compute attention as transformers calls it, and return [rows, tokens, heads, dim].

    ``query`` is [rows, heads, tokens, dim], ``key`` and ``value`` [rows, shared heads, width, dim]. ``attention_mask``
    [rows, 1, tokens, width] is added to the scores; it carries the causality.

    Raises:
        ValueError: there is no mask for more than one token.
    """
    tokens = query.shape[2]
    if attention_mask is None and tokens > 1:
        raise ValueError("several tokens need a mask that says what each may see")
    # For several tokens by_layout repeats the mask per head of a group; torch's kernel does not, but not on every GPU.
    attend = by_kernel if tokens > 1 and query.device.type == "cpu" else by_layout
    attended = attend(query, key, value, attention_mask, scaling)
    return attended.transpose(1, 2).contiguous(), None


def by_kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None) -> Tensor:
    """Compute attention with torch's own sharing of heads; shapes as of ``by_layout``."""
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling, enable_gqa=True)


def by_layout(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None) -> Tensor:
    """Compute attention with a group's query heads as further query positions of their shared head.

    Keys and values are read once. Shapes as of ``grouped_attention``; returns [rows, heads, tokens, dim].
    """
    rows, heads, tokens, dim = query.shape
    group = heads // key.shape[1]
    if mask is not None and group > 1 and tokens > 1:
        mask = mask.repeat(1, 1, group, 1)
    positions = query.reshape(rows, heads // group, group * tokens, dim)
    attended = scaled_dot_product_attention(positions, key, value, attn_mask=mask, scale=scaling)
    return attended.reshape(rows, heads, tokens, dim)
