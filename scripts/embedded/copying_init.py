"""Initial weights in which copying already works.

A transformer copies by two heads (Olsson et al. 2022, induction heads): one in an early layer notes at every token
what stood before it, one in the next layer finds the place after an earlier occurrence of the current token and repeats
what follows there. Random weights take millions of tokens to find this pair; here it is written down in closed form
and training starts from it. All other weights stay random and small.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import LlamaForCausalLM

_EMBEDDING = 0.06  # standard deviation of an embedding's entries
_CONSTANT = 9.0  # the constant first entry, in the same unit: the head that looks one back needs a fixed signal
_LOOK_BACK = 9.0  # sharpness of the look one back
_NOTE = 0.2  # how loud the note of the previous token is
_MATCH = 3.5  # sharpness of the match of content
_REPEAT = 1.5  # how loud the repeated token is
_NUM_POSITIONAL = 8  # rotary pairs (the fastest) that tell positions apart


@torch.no_grad()
def start_with_copying(model: LlamaForCausalLM, seed: int) -> None:
    """Overwrite the embeddings and the attention of the first two layers. Head size 64, one group per key head."""
    draw = torch.Generator().manual_seed(seed)
    config = model.config
    width, size = config.hidden_size, config.head_dim
    embedding = model.model.embed_tokens.weight
    embedding.copy_(torch.randn(embedding.shape, generator=draw) * _EMBEDDING)
    embedding[:, 0] = _CONSTANT * _EMBEDDING
    bases = torch.linalg.qr(torch.randn(width, width, generator=draw))[0].T
    bases[:, 0] = 0.0  # content is read beside the constant
    groups = config.num_attention_heads // config.num_key_value_heads
    first, second = (layer.self_attn for layer in model.model.layers[:2])
    frequency = config.rope_parameters["rope_theta"] ** (-torch.arange(0, size, 2) / size)
    for key_head in range(config.num_key_value_heads):
        keys = slice(key_head * size, (key_head + 1) * size)
        query_head = key_head * groups
        queries = slice(query_head * size, (query_head + 1) * size)
        noted = bases[keys]  # [size, width]: what is noted of a token
        place = bases.roll(width // 2, 0)[keys]  # [size, width]: where in the residual stream the note is kept
        _look_one_back(first, queries, keys, frequency)
        first.v_proj.weight[keys] = noted
        first.o_proj.weight[:, queries] = place.T * _NOTE
        slow = torch.ones(size)
        slow[:16] = slow[size // 2 : size // 2 + 16] = 0.0  # fast rotary pairs would blur a match over a distance
        second.q_proj.weight[queries] = noted * slow[:, None] * _MATCH
        second.k_proj.weight[keys] = place * slow[:, None] * _MATCH
        second.v_proj.weight[keys] = noted
        second.o_proj.weight[:, queries] = noted.T * _REPEAT


def _look_one_back(attention: Any, queries: slice, keys: slice, frequency: torch.Tensor) -> None:
    """Scores that depend on the distance alone and peak at one: the query is the key turned back by one position."""
    half = len(frequency)
    key = torch.zeros(2 * half)
    key[:_NUM_POSITIONAL] = 1.0
    query = torch.zeros(2 * half)
    query[:half] = key[:half] * frequency.cos()
    query[half:] = -key[:half] * frequency.sin()
    for weight, vector in ((attention.q_proj.weight[queries], query), (attention.k_proj.weight[keys], key)):
        weight.zero_()
        weight[:, 0] = vector * _LOOK_BACK / 8.0
