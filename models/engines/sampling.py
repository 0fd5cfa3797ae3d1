"""Choose the next token of each row from its logits.

Pure functions over torch tensors; knows no model. The caller passes one uniform random number per row, and tokens are
laid out on the unit interval in id order. So a row's choice does not depend on its neighbours in the batch, and a
last-digit difference between two batch shapes moves interval borders a little instead of reordering candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.types import GenerateParams, TokenLogprob


@dataclass(frozen=True, slots=True)
class Draw:
    """Describe how one row is sampled; ``uniform`` lies in [0, 1)."""

    temperature: float
    top_p: float
    top_k: int
    uniform: float

    @classmethod
    def of(cls, params: GenerateParams, uniform: float) -> Draw:
        return cls(params.temperature, params.top_p, params.top_k, uniform)


def choose_tokens(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    """Choose one token id per row of ``logits``, float32 [rows, vocabulary]."""
    chosen = logits.argmax(dim=-1)
    rows = [i for i, draw in enumerate(draws) if draw.temperature > 0]
    if rows:
        sampled = _sample(logits[rows], [draws[i] for i in rows])
        chosen[torch.tensor(rows, device=logits.device)] = sampled
    return [int(token) for token in chosen.tolist()]


def token_logprobs(logits: Tensor, tokens: Sequence[int], wanted: Sequence[int]) -> list[TokenLogprob]:
    """Return the log-probabilities of the chosen tokens and the ``wanted[i]`` best of each row.

    They are those of the logits as given: after a grammar's mask, before temperature, top_p and top_k. Tokens a
    mask forbids are not listed.
    """
    logprobs = torch.log_softmax(logits, dim=-1)
    picked = logprobs.gather(1, torch.tensor(tokens, device=logits.device).unsqueeze(1)).squeeze(1).tolist()
    best = logprobs.topk(min(max(wanted), logits.shape[1]), dim=-1)
    values, ids = best.values.tolist(), best.indices.tolist()
    return [
        TokenLogprob(
            token,
            picked[row],
            tuple((i, v) for i, v in zip(ids[row][:count], values[row][:count], strict=True) if v != float("-inf")),
        )
        for row, (token, count) in enumerate(zip(tokens, wanted, strict=True))
    ]


def _sample(logits: Tensor, draws: Sequence[Draw]) -> Tensor:
    device = logits.device
    temperature = torch.tensor([d.temperature for d in draws], device=device).unsqueeze(1)
    # The largest logit is subtracted first, so that a tiny temperature cannot overflow.
    scaled = (logits - logits.amax(dim=-1, keepdim=True)) / temperature
    if any(d.top_p < 1 or d.top_k > 0 for d in draws):
        scaled = _keep_likely(scaled, draws)
    cumulative = torch.softmax(scaled.double(), dim=-1).cumsum(dim=-1)
    uniform = torch.tensor([d.uniform for d in draws], dtype=torch.float64, device=device).unsqueeze(1)
    index = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True).squeeze(1)
    # Rounding can move the point to the very end of the interval.
    return torch.where(index < logits.shape[1], index, logits.argmax(dim=-1))


def _keep_likely(scaled: Tensor, draws: Sequence[Draw]) -> Tensor:
    """Set everything below each row's top_k and top_p threshold to -inf; ties at the threshold stay."""
    vocabulary = scaled.shape[1]
    ordered = scaled.sort(dim=-1, descending=True).values
    top_k = torch.tensor([d.top_k or vocabulary for d in draws], device=scaled.device).unsqueeze(1)
    rank = torch.arange(vocabulary, device=scaled.device).unsqueeze(0)
    ordered = ordered.masked_fill(rank >= top_k, float("-inf"))
    top_p = torch.tensor([d.top_p for d in draws], device=scaled.device).unsqueeze(1)
    probability = torch.softmax(ordered, dim=-1)
    before = probability.cumsum(dim=-1) - probability
    kept = ((before < top_p) & (rank < top_k)).sum(dim=-1, keepdim=True).clamp(min=1)
    threshold = ordered.gather(1, kept - 1)
    return scaled.masked_fill(scaled < threshold, float("-inf"))
