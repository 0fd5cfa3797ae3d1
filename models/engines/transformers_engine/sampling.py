"""Choose the next token of each row from logits.

Owns temperature, min_p, top_k and top_p, the log-probabilities that are reported, and what changes one sequence's
logits before: a bias on tokens, and penalties on those already present. The formulas of the changes and their order are
vLLM's. What the model wrote counts as output; the prompt, and text inserted into an answer, count only for the
repetition penalty. A grammar's masks are in ``grammar_mask``. Knows nothing of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from models.types import GenerateParams, TokenLogprob

# The most likely tokens among which the limits of top_k and top_p are looked for, before the whole row is sorted.
_LIKELY: Final = 1024


@dataclass(frozen=True, slots=True)
class Draw:
    """Describe how one row is sampled; ``uniform`` lies in [0, 1)."""

    temperature: float
    top_p: float
    top_k: int
    uniform: float
    min_p: float = 0.0

    @classmethod
    def of(cls, params: GenerateParams, uniform: float) -> Draw:
        return cls(params.temperature, params.top_p, params.top_k, uniform, params.min_p)

    @property
    def is_limited(self) -> bool:
        """Return whether a row needs the order of its tokens."""
        return self.top_p < 1 or self.top_k > 0


def choose_tokens(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    """Choose one token id per row of ``logits``, float32 [rows, vocabulary]."""
    rows = [i for i, draw in enumerate(draws) if draw.temperature > 0]
    if len(rows) == len(draws):
        return _as_ints(_sample(logits, draws))
    chosen = _best(logits)
    if rows:
        chosen[_indices(rows, logits.device)] = _sample(logits[rows], [draws[i] for i in rows])
    return _as_ints(chosen)


def token_logprobs(logits: Tensor, tokens: Sequence[int], counts: Sequence[int]) -> list[TokenLogprob]:
    """Return the log-probabilities of the chosen tokens and the ``counts[i]`` best of each row.

    They are those of the logits as given: after a grammar's mask, before biases, penalties, temperature, min_p, top_p
    and top_k. Tokens a mask forbids are not listed.
    """
    logprobs = torch.log_softmax(logits, dim=-1)
    picked = logprobs.gather(1, torch.tensor(tokens, device=logits.device).unsqueeze(1)).squeeze(1).tolist()
    best = logprobs.topk(min(max(counts), logits.shape[1]), dim=-1)
    values, ids = best.values.tolist(), best.indices.tolist()
    return [
        TokenLogprob(
            token,
            picked[row],
            tuple((i, v) for i, v in zip(ids[row][:count], values[row][:count], strict=True) if v != float("-inf")),
        )
        for row, (token, count) in enumerate(zip(tokens, counts, strict=True))
    ]


def logit_changes(prompt_ids: Sequence[int], params: GenerateParams) -> LogitChanges | None:
    """Return what changes the logits of a request, None where nothing does."""
    return LogitChanges(prompt_ids, params) if params.logit_bias or has_penalties(params) else None


def has_penalties(params: GenerateParams) -> bool:
    return params.repetition_penalty != 1 or params.frequency_penalty != 0 or params.presence_penalty != 0


class LogitChanges:
    """Apply the bias and penalties of one sequence, and count what it writes.

    Holds tensors of the vocabulary's size, made at the first ``apply``, on the device of the logits.
    """

    def __init__(self, prompt_ids: Sequence[int], params: GenerateParams) -> None:
        self._params = params
        self._prompt_ids = tuple(prompt_ids)
        self._has_penalties = has_penalties(params)
        self._written = list(params.written or ())
        self._counts: Tensor | None = None
        self._in_prompt: Tensor | None = None
        self._bias: tuple[Tensor, Tensor] | None = None

    def count(self, token_id: int) -> None:
        """Count a token that was sampled."""
        if self._has_penalties:
            self._written.append(token_id)

    def apply(self, logits: Tensor) -> Tensor:
        """Return the changed logits of ``logits``, float32 [vocabulary], which stay as they are."""
        changed = logits.clone()
        if self._params.logit_bias:
            ids, values = self._bias_tensors(logits)
            changed.index_add_(0, ids, values)
        if self._has_penalties:
            self._penalise(changed)
        return changed

    def _penalise(self, logits: Tensor) -> None:
        counts, params = self._counted(logits), self._params
        is_written = counts > 0
        if params.repetition_penalty != 1:
            present = is_written | self._prompt_mask(logits)
            weaker = torch.where(logits > 0, logits / params.repetition_penalty, logits * params.repetition_penalty)
            logits.copy_(torch.where(present, weaker, logits))
        if params.frequency_penalty:
            logits.sub_(counts, alpha=params.frequency_penalty)
        if params.presence_penalty:
            logits.sub_(is_written.to(logits.dtype), alpha=params.presence_penalty)

    def _counted(self, logits: Tensor) -> Tensor:
        if self._counts is None:
            self._counts = torch.zeros_like(logits)
        if self._written:
            ids = torch.tensor(self._written, device=logits.device)
            self._counts.index_add_(0, ids, torch.ones(len(self._written), device=logits.device))
            self._written.clear()
        return self._counts

    def _prompt_mask(self, logits: Tensor) -> Tensor:
        if self._in_prompt is None:
            self._in_prompt = torch.zeros_like(logits, dtype=torch.bool)
            self._in_prompt[torch.tensor(self._prompt_ids, device=logits.device)] = True
        return self._in_prompt

    def _bias_tensors(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        if self._bias is None:
            ids = torch.tensor([token for token, _ in self._params.logit_bias], device=logits.device)
            values = torch.tensor([bias for _, bias in self._params.logit_bias], device=logits.device)
            self._bias = (ids, values)
        return self._bias


def _sample(logits: Tensor, draws: Sequence[Draw]) -> Tensor:
    device = logits.device
    weights = token_weights(logits, draws)
    rows = [i for i, draw in enumerate(draws) if draw.is_limited]
    if rows:
        least = torch.zeros(len(draws), device=device)
        least[_indices(rows, device)] = least_weights(_rows(weights, rows), [draws[i] for i in rows])
        weights.masked_fill_(weights < least.unsqueeze(1), 0.0)
    cumulative = weights.cumsum(dim=-1, dtype=torch.float64)
    uniform = torch.tensor([d.uniform for d in draws], dtype=torch.float64, device=device).unsqueeze(1)
    index = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True).squeeze(1)
    # Rounding can move the point to the very end of the interval.
    return torch.where(index < logits.shape[1], index, _best(logits))


def token_weights(logits: Tensor, draws: Sequence[Draw]) -> Tensor:
    """Return the probability of each token as a multiple of its row's best, float32; min_p makes it 0."""
    temperature = torch.tensor([d.temperature for d in draws], device=logits.device).unsqueeze(1)
    # The largest logit is subtracted first, so that a tiny temperature cannot overflow.
    weights = (logits - logits.amax(dim=-1, keepdim=True)).div_(temperature).exp_()
    if any(d.min_p > 0 for d in draws):
        min_p = torch.tensor([d.min_p for d in draws], device=logits.device).unsqueeze(1)
        weights.masked_fill_(weights < min_p, 0.0)
    return weights


def least_weights(weights: Tensor, draws: Sequence[Draw], likely: int = _LIKELY) -> Tensor:
    """Return the least weight that each row's top_k and top_p keep; tokens of equal weight stay together.

    The limits of a row are looked for among its ``likely`` best tokens. They are certain where the limit lies in front
    of the last of these: the sums in front of it are those of the whole row. All other rows are sorted.
    """
    totals = weights.sum(dim=-1, keepdim=True, dtype=torch.float64)
    if likely >= weights.shape[1]:
        return _limits(weights.sort(dim=-1, descending=True).values, totals, draws)[0]
    least, certain = _limits(weights.topk(likely, dim=-1).values, totals, draws)
    rows = [i for i, is_certain in enumerate(certain.tolist()) if not is_certain]
    if rows:
        ordered = _rows(weights, rows).sort(dim=-1, descending=True).values
        least[_indices(rows, weights.device)] = _limits(ordered, totals[rows], [draws[i] for i in rows])[0]
    return least


def _limits(ordered: Tensor, totals: Tensor, draws: Sequence[Draw]) -> tuple[Tensor, Tensor]:
    """Return the least weight that each row keeps, and whether weights beyond ``ordered`` could not change it.

    ``ordered`` are a row's largest weights, best first; ``totals`` are the sums of whole rows, [rows, 1].
    """
    num, device = ordered.shape[1], ordered.device
    top_k = torch.tensor([d.top_k or torch.iinfo(torch.int64).max for d in draws], device=device).unsqueeze(1)
    top_p = torch.tensor([d.top_p for d in draws], dtype=torch.float64, device=device).unsqueeze(1)
    reached = ordered.cumsum(dim=-1, dtype=torch.float64)
    # top_p counts in what top_k left, as in vLLM.
    mass = torch.where(top_k <= num, reached.gather(1, (top_k - 1).clamp(max=num - 1)), totals)
    before = reached - ordered
    rank = torch.arange(num, device=device).unsqueeze(0)
    kept = ((top_p >= 1) | (before < top_p * mass)) & (rank < top_k)
    counts = kept.sum(dim=-1, keepdim=True).clamp(min=1)
    # Among the first num weights, top_k above num is not seen, so its share of the mass is not known.
    certain = (counts < num) & ((top_k <= num) | (top_k > torch.iinfo(torch.int32).max))
    return ordered.gather(1, counts - 1).squeeze(1), certain.squeeze(1)


def _rows(weights: Tensor, rows: Sequence[int]) -> Tensor:
    return weights if len(rows) == weights.shape[0] else weights[_indices(rows, weights.device)]


def _indices(rows: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(rows, device=device)


def _best(logits: Tensor) -> Tensor:
    """Return the best token of each row, the first of equal ones; numpy finds it in a tenth of torch's time."""
    if logits.device.type == "cpu":
        return torch.from_numpy(logits.numpy().argmax(axis=-1))
    return logits.argmax(dim=-1)


def _as_ints(tokens: Tensor) -> list[int]:
    return [int(token) for token in tokens.tolist()]
