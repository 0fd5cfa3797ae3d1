"""Build initial weights that already copy, and that know where an answer begins.

A transformer copies by two kinds of heads (Olsson et al. 2022, induction heads): heads in an early layer store at every
token which tokens precede it, a head in the next layer finds the position whose stored tokens match the text just
written and repeats the token there. Random weights take millions of tokens to learn this; here it is written in closed
form and training starts from it. The stored context reaches four tokens back: with one alone, ``PSMB10`` beside its
alias ``PSMB1`` or the second "of the" of a sentence misleads the copy. A second head has one function: at "Answer: " it
repeats what begins the first line of the last reply, found by the tokens stored for what precedes it there.

Layout of the residual stream: entry 0 is a constant, the next entries of the lower half are the token's own content,
the upper half has the four stored contexts (1, 2, 3, 4 tokens back). All other weights stay random and small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import LlamaForCausalLM

NUM_COPYING_LAYERS = 2
LAGS = (1, 2, 3, 4)
_EMBEDDING = 0.06  # standard deviation of an embedding's entries
_CONSTANT = 9.0  # the constant first entry, in the same unit: the heads that look back need a fixed signal
_LOOK_BACK = 1.5  # sharpness of the look back
_NUM_POSITIONAL = 5  # rotary pairs (the fastest) that tell positions apart; slower ones blur the look back
_NOTE = 0.2  # how loud a note is
_MATCHED = (28, 24, 20, 20)  # entries compared per lag; together at most the slow rotary entries
_WEIGHTS = (20.0, 11.0, 7.0, 6.0)  # what an agreement at each lag adds to the attention score
_SLOW_FROM = (
    18  # with theta 1e12, rotary pairs from here on turn little within a transcript; faster ones would blur a match
)
_REPEAT = 1.5  # how loud the repeated token is
_ANSWER, _FIRST_LINE, _BEGINNING = "Answer: ", (" ", ".", "1", "\n"), "Question: "
_POINTED = (1.0, 1.0, 1.0, 0.6)  # weights of the four tokens before the place pointed at, nearest first
_NOWHERE = 0.5  # where no such place is, the text's beginning is looked at: half a match
_POINTING = 140.0  # sharpness of the pointer
_RECENT = (12, 13)  # rotary pairs that turn by about a third of a circle in 400 tokens: the last reply wins
_RECENCY = 0.1
_POINTED_AT = 3.5  # how loud the token pointed at is
_CERTAINTY = 3.0  # scale of the last norm: with 1.0 even a perfect match leaves much of the probability to others


@torch.no_grad()
def start_with_copying(model: LlamaForCausalLM, token_id: Callable[[str], int], seed: int) -> None:
    """Overwrite the embeddings, the first layer's attention and two heads of the second's.

    Needs four query heads in two groups, head size 128 and width 256. ``token_id`` of a text that is one token.
    """
    draw = torch.Generator().manual_seed(seed)
    config = model.config
    half, size = config.hidden_size // 2, config.head_dim
    embedding = model.model.embed_tokens.weight
    embedding.zero_()
    embedding[:, 1:half] = torch.randn(embedding[:, 1:half].shape, generator=draw) * _EMBEDDING
    embedding[:, 0] = _CONSTANT * _EMBEDDING
    model.model.norm.weight.fill_(_CERTAINTY)
    first, second = (layer.self_attn for layer in model.model.layers[:2])
    frequency = config.rope_parameters["rope_theta"] ** (-torch.arange(0, size, 2) / size)
    room = half // len(LAGS)
    for head, lag in enumerate(LAGS):
        _look_back(first, head, lag, frequency)
        note = slice(half + head * room, half + (head + 1) * room)
        first.o_proj.weight[:, head * size : (head + 1) * size] = 0.0
        first.o_proj.weight[note, head * size : head * size + room] = torch.eye(room) * _NOTE
    for key_head in range(config.num_key_value_heads):
        values = torch.zeros(size, config.hidden_size)
        values[:room, 1 : room + 1] = torch.eye(room)
        first.v_proj.weight[key_head * size : (key_head + 1) * size] = values
    _repeat_after_match(second, half, size)
    words = {text: embedding[token_id(text), 1:half] / _EMBEDDING for text in (_ANSWER, _BEGINNING, *_FIRST_LINE)}
    _point_at_first_line(second, words, size)


def _look_back(attention: Any, head: int, lag: int, frequency: torch.Tensor) -> None:
    """Scores that depend on the distance alone and peak at ``lag``: the query is the key turned back that far."""
    half = len(frequency)
    key = torch.zeros(2 * half)
    key[:_NUM_POSITIONAL] = 1.0
    query = torch.zeros(2 * half)
    query[:half] = key[:half] * (lag * frequency).cos()
    query[half:] = -key[:half] * (lag * frequency).sin()
    key_head = head * attention.k_proj.out_features // attention.q_proj.out_features
    for projection, place, vector in ((attention.q_proj, head, query), (attention.k_proj, key_head, key)):
        rows = projection.weight[place * 2 * half : (place + 1) * 2 * half]
        rows.zero_()
        rows[:, 0] = vector * _LOOK_BACK


def _repeat_after_match(attention: Any, half: int, size: int) -> None:
    """Head 0: the text just written against the notes of every place; what stands there is repeated."""
    room = half // len(LAGS)
    slow = _slow(size)
    query, key = torch.zeros(size, 2 * half), torch.zeros(size, 2 * half)
    at = 0
    for number, (entries, weight) in enumerate(zip(_MATCHED, _WEIGHTS, strict=True)):
        # Own content is quieter than a note after the first layer; the scales were set by measurement.
        source, loud = (1, 2.6) if number == 0 else (half + (number - 1) * room, 0.66)
        target = half + number * room
        for entry in range(entries):
            query[slow[at], source + entry] = loud * weight / entries
            key[slow[at], target + entry] = 0.66
            at += 1
    attention.q_proj.weight[:size] = query * size**0.5
    attention.k_proj.weight[:size] = key
    values = torch.zeros(size, 2 * half)
    values[:, :size] = torch.eye(size)
    values[0, 0] = 0.0
    attention.v_proj.weight[:size] = values
    attention.o_proj.weight[:, :size] = 0.0
    attention.o_proj.weight[:size, :size] = torch.eye(size) * _REPEAT


def _point_at_first_line(attention: Any, words: dict[str, torch.Tensor], size: int) -> None:
    """Head 1, beside the keys and values of head 0: asked by the answer's token alone."""
    slow, wanted, at = _slow(size), torch.zeros(size), 0
    for text, entries, weight in zip(_FIRST_LINE, _MATCHED, _POINTED, strict=True):
        pattern = words[text] + _NOWHERE * words[_BEGINNING]
        for entry in range(entries):
            wanted[slow[at]] = weight * pattern[entry] / entries
            at += 1
    for pair in _RECENT:
        attention.k_proj.weight[pair, 0] = 1.0
        wanted[pair] = _RECENCY
    answer = torch.zeros(attention.q_proj.in_features)
    answer[1 : 1 + len(words[_ANSWER])] = words[_ANSWER] / words[_ANSWER].square().sum()
    attention.q_proj.weight[size : 2 * size] = torch.outer(wanted * _POINTING, answer)
    attention.o_proj.weight[:, size : 2 * size] = 0.0
    attention.o_proj.weight[:size, size : 2 * size] = torch.eye(size) * _POINTED_AT


def _slow(size: int) -> list[int]:
    """Entries of a head whose rotary pairs turn little, both halves."""
    return [i for start in (0, size // 2) for i in range(start + _SLOW_FROM, start + size // 2)]
