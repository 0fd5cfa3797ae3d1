"""Keep the rotary embedding of a model from depending on the longest sequence of a batch.

transformers recomputes the factors of some embeddings at each forward pass, from the largest position in it. With
several sequences in one pass, a sequence would then be turned by its neighbour's length, and its stored keys by another
factor than its new ones. Here one set of factors is chosen when the model is loaded, as vLLM does.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from models.errors import EngineUnavailable

log = logging.getLogger(__name__)
# A type that transformers never recomputes; the factors are in the module's buffers by then.
_FIXED = "default"


def fix_rotary_factors(model: nn.Module, context_length: int) -> None:
    """Choose the factors for ``context_length`` once for all positions, in place.

    ``longrope`` takes its long factors if the context is longer than that of the pre-training, otherwise the short
    ones. ``dynamic`` keeps those of its own context, beyond which no sequence goes.

    Raises:
        EngineUnavailable: the embedding still depends on its neighbours, since the model computes it in a form
            unknown here.
    """
    module: Any
    for module in model.modules():
        types = getattr(module, "rope_type", None)
        if isinstance(types, str):
            kinds: dict[str | None, str] = {None: types}
        elif isinstance(types, Mapping):
            kinds = dict(types)
        else:
            continue
        fixed = [layer for layer, kind in kinds.items() if _fixed(module, kind, layer, context_length)]
        if fixed:
            module.rope_type = _FIXED if isinstance(types, str) else {**types, **dict.fromkeys(fixed, _FIXED)}
        for layer in fixed:
            _check(module, layer, context_length)


def _fixed(module: Any, kind: str, layer_type: str | None, context_length: int) -> bool:
    """Set the factors of one type of layers; return whether they depended on the length."""
    if kind == "longrope":
        _fix_longrope(module, layer_type, context_length)
    return kind == "longrope" or "dynamic" in kind


def _fix_longrope(module: Any, layer_type: str | None, context_length: int) -> None:
    parameters = module.config.rope_parameters
    original = (parameters if layer_type is None else parameters[layer_type])["original_max_position_embeddings"]
    name = "inv_freq" if layer_type is None else f"{layer_type}_inv_freq"
    present: torch.Tensor = getattr(module, name)
    length = context_length if context_length > original else None
    factors, _ = ROPE_INIT_FUNCTIONS["longrope"](module.config, present.device, seq_len=length, layer_type=layer_type)
    setattr(module, name, factors.to(present.dtype))
    if length is not None:
        log.info("long rotary factors for all lengths: the context of %d is more than %d", context_length, original)


@torch.inference_mode()
def _check(module: Any, layer_type: str | None, context_length: int) -> None:
    """Compare the embedding of a position alone with that beside the last position of the context."""
    device = next(module.buffers()).device
    states = torch.zeros(1, device=device)
    which = {} if layer_type is None else {"layer_type": layer_type}
    alone = module(states, torch.tensor([[1]], device=device), **which)
    beside = module(states, torch.tensor([[1], [context_length - 1]], device=device), **which)
    if not all(torch.equal(one[0], two[0]) for one, two in zip(alone, beside, strict=True)):
        raise EngineUnavailable(
            "this model's rotary embedding depends on the longest sequence of a batch; lower max_model_len to the "
            "context of its pre-training, or serve it with vLLM"
        )
