"""Attention for models whose query heads share key and value heads, without copying those for every query head.

Registered with transformers under ``NAME``.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

NAME = "arrowhead_grouped"


def register() -> None:
    """Make ``NAME`` known to transformers; doing it again changes nothing."""
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
    """``query`` [rows, heads, tokens, dim], ``key`` and ``value`` [rows, shared heads, width, dim].

    ``attention_mask`` [rows, 1, tokens, width], what is added to the scores; it must be given for more than one token,
    since causality is nowhere else. Returns [rows, tokens, heads, dim].
    """
    tokens = query.shape[2]
    if attention_mask is None and tokens > 1:
        raise ValueError("several tokens need a mask that says what each may see")
    # Several tokens by layout need a mask for each head of a group; torch's kernel does without, but not on every card.
    attend = by_kernel if tokens > 1 and query.device.type == "cpu" else by_layout
    attended = attend(query, key, value, attention_mask, scaling)
    return attended.transpose(1, 2).contiguous(), None


def by_kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None) -> Tensor:
    """torch's own kernel shares the heads. As ``by_layout``."""
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling, enable_gqa=True)


def by_layout(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None) -> Tensor:
    """The query heads of one group become further query positions of their shared head: same keys, same values, read
    once. Shapes as of ``grouped_attention``; returns [rows, heads, tokens, dim]."""
    rows, heads, tokens, dim = query.shape
    group = heads // key.shape[1]
    if mask is not None and group > 1 and tokens > 1:
        mask = mask.repeat(1, 1, group, 1)
    positions = query.reshape(rows, heads // group, group * tokens, dim)
    attended = scaled_dot_product_attention(positions, key, value, attn_mask=mask, scale=scaling)
    return attended.reshape(rows, heads, tokens, dim)
