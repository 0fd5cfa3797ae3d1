"""Compute what the trained verifier computes: a BERT over query and evidence, and two linear heads; imports torch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.encoders.transformers_encoder.loading import PlainBert

RELEVANCE = "relevance"
VERDICT = "verdict"
VERDICTS = 3


class Logits(NamedTuple):
    """Hold the logits of pairs: of relevance [n], and of supports, contradicts and neither [n, 3], float32."""

    relevance: Tensor
    verdict: Tensor


class VerifierNetwork(nn.Module):
    """Read pairs by the vector of [CLS] and the mean of all tokens, joined."""

    def __init__(self, bert: PlainBert) -> None:
        super().__init__()
        self.bert = bert
        width = 2 * bert.config.hidden_size
        self.heads = nn.ModuleDict({RELEVANCE: nn.Linear(width, 1), VERDICT: nn.Linear(width, VERDICTS)})

    def forward(self, ids: Tensor, segments: Tensor, mask: Tensor) -> Logits:
        hidden = self.bert(ids, mask, segments).last_hidden_state.float()
        kept = mask.unsqueeze(-1).float()
        mean = (hidden * kept).sum(dim=1) / kept.sum(dim=1)
        pooled = torch.cat([hidden[:, 0], mean], dim=1)
        return Logits(self.heads[RELEVANCE](pooled).float()[:, 0], self.heads[VERDICT](pooled).float())
