"""Change one sequence's logits before sampling: by a bias on tokens, and by penalties on those already present.

The formulas and their order are vLLM's. What the model wrote counts as output; the prompt, and text inserted into an
answer, count only for the repetition penalty.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from models.types import GenerateParams


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


def has_penalties(params: GenerateParams) -> bool:
    return params.repetition_penalty != 1 or params.frequency_penalty != 0 or params.presence_penalty != 0


def logit_changes(prompt_ids: Sequence[int], params: GenerateParams) -> LogitChanges | None:
    """Return what changes the logits of a request, None where nothing does."""
    return LogitChanges(prompt_ids, params) if params.logit_bias or has_penalties(params) else None
