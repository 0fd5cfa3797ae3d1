"""Run a cross-encoder, any sequence classification model with one label, on transformers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from models.encoders.base import EncoderOptions, Floats, PassageText, Progress, join_title
from models.encoders.model_files import digests
from models.encoders.resolve import ResolvedCrossEncoder
from models.encoders.transformers_encoder.batches import BatchRunner, Inputs
from models.encoders.transformers_encoder.loading import SEGMENTS, check_lengths, load_classifier, takes_segments
from models.encoders.transformers_encoder.placement import FifoLock, Placement, place
from models.encoders.transformers_encoder.token_rows import Text, TruncatingTokenizer, load_tokenizer
from models.errors import EncoderUnusable


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


class _LogitForward:
    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model
        self._takes_segments = takes_segments(model, tokenizer)

    def __call__(self, inputs: Inputs) -> torch.Tensor:
        extra = {SEGMENTS: inputs.segments} if self._takes_segments else {}
        logits: torch.Tensor = self._model(input_ids=inputs.ids, attention_mask=inputs.mask, **extra).logits
        return logits.float()
