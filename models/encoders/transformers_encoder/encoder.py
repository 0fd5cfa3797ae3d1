"""Run encoders of one or two transformers models with explicit pooling, and cross-encoders with one label."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from models.encoders.base import (
    SENTENCE,
    Codes,
    EncoderFingerprint,
    EncoderOptions,
    Floats,
    Metric,
    PassageText,
    Pooling,
    Progress,
    join_title,
)
from models.encoders.model_files import ModelFolder, digests
from models.encoders.resolve import ResolvedCrossEncoder, ResolvedEncoder
from models.encoders.specs import EncoderSpec
from models.encoders.texts import (
    EncoderTexts,
    Text,
    TruncatingTokenizer,
    file_digests,
    fingerprint_of,
    load_tokenizer,
)
from models.encoders.token_codes import kept_tokens, pack, rotation
from models.encoders.transformers_encoder.batches import BatchRunner, Inputs
from models.encoders.transformers_encoder.loading import (
    SEGMENTS,
    FifoLock,
    Placement,
    check_lengths,
    load_classifier,
    load_transformer,
    place,
    takes_segments,
)
from models.errors import EncoderUnusable

_Kept = TypeVar("_Kept")


class TransformersEncoder:
    """Encode texts with transformers models, blocking on construction until the weights are in memory.

    Safe from many threads: batches of all callers run one after another. Raises what ``load_transformer`` and ``place``
    do.
    """

    def __init__(self, resolved: ResolvedEncoder, options: EncoderOptions) -> None:
        self._spec = spec = resolved.spec
        self._texts = EncoderTexts(spec)
        # Before the weights are loaded: a file that changes meanwhile must not get the digest of the new one.
        sha256 = file_digests(resolved)
        self._placement, lock = place(options), FifoLock()
        weights = [_Weights.load(folder, self._placement) for folder in resolved.folders]
        self._query = _Tower(weights[0], spec, spec.max_query, lock)
        self._passage = _Tower(weights[-1], spec, spec.max_passage, lock)
        if self._query.dim != self._passage.dim:
            raise EncoderUnusable(
                f"{spec.name}: queries have {self._query.dim} numbers, passages {self._passage.dim}; "
                "its two models do not belong together"
            )
        self._fingerprint = fingerprint_of(resolved, sha256, self._passage.dim)

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def dim(self) -> int:
        return self._fingerprint.dim

    @property
    def metric(self) -> Metric:
        return self._spec.metric

    @property
    def fingerprint(self) -> EncoderFingerprint:
        return self._fingerprint

    @property
    def placement(self) -> Placement:
        return self._placement

    def encode_queries(self, texts: Sequence[str], *, progress: Progress | None = None) -> Floats:
        return self._query.encode(self._texts.queries(texts), len(texts), progress)

    def encode_passages(self, passages: Sequence[PassageText], *, progress: Progress | None = None) -> Floats:
        return self._passage.encode(self._texts.passages(passages), len(passages), progress)

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[Floats]]:
        return self._query.encode_tokens(self._texts.queries(texts), len(texts), unit_rows)

    def encode_passages_with_tokens(self, passages: Sequence[PassageText]) -> tuple[Floats, list[Codes]]:
        return self._passage.encode_tokens(self._texts.passages(passages), len(passages), pack)

    def count_query_tokens(self, text: str) -> int:
        return self._query.cutter.count(self._texts.query(text))


class TransformersCrossEncoder:
    """Score pairs with a transformers model, blocking on construction until the weights are in memory.

    Scores are raw logits: a sigmoid would make good hits all equal. Raises what ``load_classifier`` and ``place`` do.

    Raises:
        EncoderUnusable: the model has more than one label.
    """

    def __init__(self, resolved: ResolvedCrossEncoder, options: EncoderOptions) -> None:
        self._spec = resolved.spec
        self._placement = place(options)
        self._sha256 = digests(resolved.folder)
        tokenizer = load_tokenizer(resolved.folder.path)
        model = load_classifier(resolved.folder, self._placement)
        if model.config.num_labels != 1:
            raise EncoderUnusable(
                f"{resolved.folder.path} has {model.config.num_labels} labels; a cross-encoder has one, the relevance"
            )
        check_lengths(model, tokenizer, self._spec.max_tokens, self._spec.name)
        self._cutter = TruncatingTokenizer(tokenizer, self._spec.max_tokens)
        self._runner = BatchRunner(_LogitForward(model, tokenizer), 1, self._placement, FifoLock())

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def sha256(self) -> tuple[tuple[str, str], ...]:
        return self._sha256

    @property
    def placement(self) -> Placement:
        return self._placement

    def score(self, query: str, passages: Sequence[PassageText], *, progress: Progress | None = None) -> Floats:
        pairs: Iterator[Text] = ((query, join_title(passage)) for passage in passages)
        return self._runner.run(self._cutter, self._spec.max_tokens, pairs, len(passages), progress)[:, 0]


class _Tower:
    """Combine one model with its tokenizer, at one maximum length."""

    def __init__(self, weights: _Weights, spec: EncoderSpec, max_tokens: int, lock: FifoLock) -> None:
        check_lengths(weights.model, weights.tokenizer, max_tokens, spec.name)
        self.dim = int(weights.model.config.hidden_size)
        # A separator that is a special token's name has to be read as that token.
        self.cutter = TruncatingTokenizer(weights.tokenizer, max_tokens, literal=spec.separator == SENTENCE)
        self._max_tokens = max_tokens
        self._forward = PooledForward(weights.model, weights.tokenizer, spec.pooling, spec.normalise)
        self._placement, self._lock = weights.placement, lock
        self._runner = BatchRunner(self._forward, self.dim, weights.placement, lock)

    def encode(self, texts: Iterator[Text], total: int, progress: Progress | None) -> Floats:
        return self._runner.run(self.cutter, self._max_tokens, texts, total, progress)

    def encode_tokens(
        self, texts: Iterator[Text], total: int, as_kept: Callable[[Floats], _Kept]
    ) -> tuple[Floats, list[_Kept]]:
        """Return the vectors and, for each text, what ``as_kept`` makes of the rotated vectors of its kept tokens."""
        found: list[_Kept] = []
        forward = TokenForward(self._forward, self._kept, lambda rotated: found.append(as_kept(rotated)))
        runner = BatchRunner(forward, self.dim, self._placement, self._lock)
        vectors, places = runner.run_with_places(self.cutter, self._max_tokens, texts, total, None)
        return vectors, [found[place] for place in places]

    @cached_property
    def _kept(self) -> NDArray[np.bool_]:
        return kept_tokens(self.cutter.vocabulary)


@dataclass(frozen=True, slots=True)
class _Weights:
    model: Any
    tokenizer: Any
    placement: Placement

    @classmethod
    def load(cls, folder: ModelFolder, placement: Placement) -> _Weights:
        return cls(load_transformer(folder, placement), load_tokenizer(folder.path), placement)


class PooledForward:
    """Pool the token vectors of a batch to one float32 vector per text."""

    def __init__(self, model: Any, tokenizer: Any, pooling: Pooling, normalise: bool) -> None:
        self._model = model
        self._takes_segments = takes_segments(model, tokenizer)
        self._pooling = pooling
        self._normalise = normalise

    def __call__(self, inputs: Inputs) -> torch.Tensor:
        return self.pooled(self.hidden(inputs), inputs)

    def hidden(self, inputs: Inputs) -> torch.Tensor:
        """Return the token vectors, [rows, width, dim]."""
        extra = {SEGMENTS: inputs.segments} if self._takes_segments else {}
        found: torch.Tensor = self._model(input_ids=inputs.ids, attention_mask=inputs.mask, **extra).last_hidden_state
        return found

    def pooled(self, hidden: torch.Tensor, inputs: Inputs) -> torch.Tensor:
        vectors = hidden[:, 0].float() if self._pooling == "cls" else _mean(hidden, inputs.mask)
        return functional.normalize(vectors, dim=1) if self._normalise else vectors


class TokenForward:
    """Pool a batch as ``PooledForward`` does, and give each text's rotated token vectors to ``take``, row by row.

    Only tokens of ``kept`` (by id) are given, or all of a text that has none.
    """

    def __init__(self, pooled: PooledForward, kept: NDArray[np.bool_], take: Callable[[Floats], None]) -> None:
        self._pooled = pooled
        self._kept = kept
        self._take = take

    def __call__(self, inputs: Inputs) -> torch.Tensor:
        hidden = self._pooled.hidden(inputs)
        matrix = torch.from_numpy(rotation(hidden.shape[-1]).copy()).to(hidden.device)
        ids, mask = inputs.ids.cpu().numpy(), inputs.mask.cpu().numpy() != 0
        kept = self._kept[ids] & mask
        kept[~kept.any(axis=1)] = mask[~kept.any(axis=1)]
        chosen = torch.from_numpy(kept).to(hidden.device)
        rotated = (hidden[chosen].float() @ matrix).cpu().numpy()
        vectors = self._pooled.pooled(hidden, inputs)
        for rows in np.split(rotated, np.cumsum(kept.sum(axis=1))[:-1]):
            self._take(rows)
        return vectors


def unit_rows(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Floats = vectors / np.maximum(lengths, np.float32(1e-12))
    return scaled


def _mean(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    # Summed in float32: bfloat16 has 8 bits for a sum over hundreds of tokens.
    weights = mask.unsqueeze(-1).float()
    return (hidden.float() * weights).sum(dim=1) / weights.sum(dim=1)


class _LogitForward:
    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model
        self._takes_segments = takes_segments(model, tokenizer)

    def __call__(self, inputs: Inputs) -> torch.Tensor:
        extra = {SEGMENTS: inputs.segments} if self._takes_segments else {}
        logits: torch.Tensor = self._model(input_ids=inputs.ids, attention_mask=inputs.mask, **extra).logits
        return logits.float()
