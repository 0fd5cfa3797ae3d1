"""Attention for models whose query heads share key and value heads, without copying those for every query head.

The query heads of one group are laid out as further query positions of their shared head: same keys, same values,
same mask, and of what is large nothing is repeated in memory. Registered with transformers under ``NAME``.
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
    rows, heads, tokens, dim = query.shape
    if attention_mask is None and tokens > 1:
        raise ValueError("several tokens need a mask that says what each may see")
    group = heads // key.shape[1]
    if tokens > 1 and query.device.type == "cpu":
        # Here torch's own kernel shares the heads, so that the mask need not be there once for each of a group.
        attended = scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=group > 1
        )
        return attended.transpose(1, 2).contiguous(), None
    if attention_mask is not None and group > 1 and tokens > 1:
        attention_mask = attention_mask.repeat(1, 1, group, 1)
    attended = scaled_dot_product_attention(
        query.reshape(rows, heads // group, group * tokens, dim), key, value, attn_mask=attention_mask, scale=scaling
    )
    return attended.reshape(rows, heads, tokens, dim).transpose(1, 2).contiguous(), None
