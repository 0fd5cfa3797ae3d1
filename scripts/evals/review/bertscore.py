"""Compute BERTScore (Zhang et al., ICLR 2020) with the token vectors of an encoder of this project.

The published values rest on another model, so these can be compared with each other alone. Tokens of function words
have no vectors here and are left out; there is no weighting by rarity and no rescaling. A text longer than the encoder
reads is cut into pieces at sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from models.encoders.base import Floats, TokenEncoder
from server.methods.shared.sentences import split_sentences

_PIECE_WORDS: Final = 120


@dataclass(frozen=True, slots=True)
class BertScore:
    """``precision``: how well the tokens of the text are met by those of the reference; ``recall`` the reverse."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def bert_score(encoder: TokenEncoder, text: str, reference: str, *, paper_compat: bool = False) -> BertScore:
    """Score a text against a reference, 0 where one of them has no tokens.

    ``paper_compat`` swaps them as the published table does: precision and recall change places, F1 stays.
    """
    told, wanted = (reference, text) if paper_compat else (text, reference)
    first, second = _tokens(encoder, told), _tokens(encoder, wanted)
    if not len(first) or not len(second):
        return BertScore(0.0, 0.0)
    alike = first @ second.T
    return BertScore(float(alike.max(axis=1).mean()), float(alike.max(axis=0).mean()))


def _tokens(encoder: TokenEncoder, text: str) -> Floats:
    """Return the unit vectors of a text's tokens, float32 [tokens, dim]."""
    pieces = list(_pieces(text))
    if not pieces:
        return np.zeros((0, encoder.dim), np.float32)
    _, vectors = encoder.encode_queries_with_tokens(pieces)
    joined: Floats = np.concatenate(vectors)
    return joined


def _pieces(text: str) -> Iterator[str]:
    words: list[str] = []
    for line in [one.line for one in split_sentences(text)] or [text.strip()]:
        found = line.split()
        if words and len(words) + len(found) > _PIECE_WORDS:
            yield " ".join(words)
            words = []
        words += found
        while len(words) > _PIECE_WORDS:
            yield " ".join(words[:_PIECE_WORDS])
            words = words[_PIECE_WORDS:]
    if words:
        yield " ".join(words)
