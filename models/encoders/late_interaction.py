"""Score passages by the tokens of an encoder (late interaction), as a re-ranker that needs no weights of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from models.encoders.base import Floats, PassageText, TokenEncoder
from models.encoders.token_codes import max_sim

_LEAST: Final = 1e-6


class LateInteraction:
    """Implement ``CrossEncoder`` over the token vectors of an encoder.

    A logit is the log-odds of the similarity, so that its sigmoid is ColBERT's MaxSim again, from 0 to 1.
    """

    def __init__(self, encoder: TokenEncoder, name: str) -> None:
        self._encoder = encoder
        self.name = name

    def score(self, query: str, passages: Sequence[PassageText]) -> Floats:
        _, of_query = self._encoder.encode_queries_with_tokens([query])
        _, codes = self._encoder.encode_passages_with_tokens(passages)
        similarities = np.clip(max_sim(of_query[0], codes).astype(np.float64), _LEAST, 1 - _LEAST)
        logits: Floats = np.log(similarities / (1 - similarities)).astype(np.float32)
        return logits
