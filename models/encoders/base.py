"""The seam of encoders: texts to vectors. Free of torch, safe to import anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Pooling = Literal["cls", "mean"]
Metric = Literal["inner_product", "l2"]
Floats = NDArray[np.float32]


class PassageText(NamedTuple):
    """What is embedded of a passage. Encoders trained on pairs get a pair, the others one text of both."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderFingerprint:
    """Everything that decides a vector. Two encoders with one fingerprint give the same vectors, up to ``dtype``.

    ``sha256`` maps file names of both towers (query, passage) to digests. ``max_query``, ``max_passage`` are tokens.
    ``separator`` stands between title and text where ``pairs`` is false; ". " becomes " " after a title that ends in
    a full stop. ``prefixes`` go before every query and every passage.
    """

    encoder_id: str
    revision: str
    sha256: tuple[tuple[str, str], ...]
    pooling: Pooling
    normalise: bool
    metric: Metric
    dim: int
    max_query: int
    max_passage: int
    pairs: bool
    separator: str = ". "
    prefixes: tuple[str, str] = ("", "")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Encoder(Protocol):
    """Loaded weights. Safe from many threads; calls run one after another."""

    @property
    def name(self) -> str: ...

    @property
    def dim(self) -> int: ...

    @property
    def metric(self) -> Metric: ...

    @property
    def fingerprint(self) -> EncoderFingerprint: ...

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """float32 [n, dim], in the order given. Texts over the token limit are cut at their end."""
        ...

    def encode_passages(self, passages: Sequence[PassageText]) -> Floats:
        """float32 [n, dim], in the order given."""
        ...

    def count_query_tokens(self, text: str) -> int:
        """Tokens with the special ones, before any cut: more than ``max_query`` means that the end will not count."""
        ...


class CrossEncoder(Protocol):
    """Scores pairs of a query and a passage together."""

    @property
    def name(self) -> str: ...

    def score(self, query: str, passages: Sequence[PassageText]) -> Floats:
        """float32 [n], raw logits, higher for better, in the order given."""
        ...
