"""Encode and score texts without model weights.

For tests of other layers, and where no model's files are installed. Matches words, not meanings: a synonym is as far
away as any other word. Results are the same on every machine.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Sequence, Set
from itertools import pairwise
from typing import Final

import numpy as np

from models.encoders.base import EncoderFingerprint, Fingerprinted, Floats, PassageText, Progress, join_title
from models.encoders.specs import HASHING, OVERLAP

_WORD: Final = re.compile(r"\w+")
_VERSION: Final = "1"
_MAX_WORDS: Final = 512
_SIGN_BIT: Final = 1 << 31
# An empty text has no words, but a vector of length 1 needs a feature.
_NOTHING: Final = "\0"


class HashingEncoder(Fingerprinted):
    """Hash words and word pairs to a dimension and a sign, weighted 1 + ln(count), scaled to length 1."""

    def __init__(self, dim: int = 256) -> None:
        if dim < 8:
            raise ValueError(f"dim must be at least 8, not {dim}")
        self._fingerprint = EncoderFingerprint(
            encoder_id=HASHING,
            revision=_VERSION,
            sha256=(),
            pooling="mean",
            normalise=True,
            metric="inner_product",
            dim=dim,
            max_query=_MAX_WORDS,
            max_passage=_MAX_WORDS,
            pairs=False,
        )

    def encode_queries(self, texts: Sequence[str], *, progress: Progress | None = None) -> Floats:
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            self._fill(vectors[row], _words(text)[:_MAX_WORDS])
            if progress is not None:
                progress(row + 1, len(texts))
        return vectors

    def encode_passages(self, passages: Sequence[PassageText], *, progress: Progress | None = None) -> Floats:
        return self.encode_queries([join_title(passage) for passage in passages], progress=progress)

    def count_query_tokens(self, text: str) -> int:
        return len(_words(text))

    def _fill(self, vector: Floats, words: list[str]) -> None:
        pairs = [f"{first} {second}" for first, second in pairwise(words)]
        for feature, count in Counter(words + pairs).items() or ((_NOTHING, 1),):
            code = zlib.crc32(feature.encode("utf-8", "replace"))
            vector[code % self.dim] += (1.0 + math.log(count)) * (1.0 if code & _SIGN_BIT else -1.0)
        length = float(np.linalg.norm(vector))
        if length == 0.0:
            # Features of opposite sign shared a dimension and cancelled.
            vector[zlib.crc32(" ".join(words).encode("utf-8", "replace")) % self.dim] = length = 1.0
        vector /= length


class OverlapCrossEncoder:
    """Score the share of the query's words and adjacent word pairs in the passage, as a logit from -6 to 6."""

    @property
    def name(self) -> str:
        return OVERLAP

    def score(self, query: str, passages: Sequence[PassageText], *, progress: Progress | None = None) -> Floats:
        words = _words(query)
        query_words, query_pairs = set(words), set(pairwise(words))
        scores = np.empty(len(passages), np.float32)
        for row, passage in enumerate(passages):
            passage_words = _words(join_title(passage))[:_MAX_WORDS]
            share = _share(query_words, set(passage_words))
            if query_pairs:
                share = 0.75 * share + 0.25 * _share(query_pairs, set(pairwise(passage_words)))
            scores[row] = 12.0 * share - 6.0
            if progress is not None:
                progress(row + 1, len(passages))
        return scores


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _share(expected: Set[object], present: Set[object]) -> float:
    return len(expected & present) / len(expected) if expected else 0.0
