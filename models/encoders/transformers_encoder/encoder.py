"""Run encoders of one or two transformers models with explicit pooling, and cross-encoders with one label.

Tokenised texts pass the model in sorted batches of bounded size. Not by sentence-transformers' ``encode``, which takes
a fifth more time for texts of mixed length and the mean in bfloat16 (docs/benchmarks.md), pools a folder without
modules.json by the mean, and applies a sigmoid to a cross-encoder's logit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from models.encoders.base import (
    SENTENCE,
    Codes,
    EncoderOptions,
    Fingerprinted,
    Floats,
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
    TokenRow,
    TruncatingTokenizer,
    file_digests,
    fingerprint_of,
    load_tokenizer,
)
from models.encoders.token_codes import kept_tokens, pack, rotation
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
from models.errors import ENCODER_UNUSABLE, EngineUnavailable, ModelNotFound
from models.torch_runtime.openmp import run_in_new_thread

_SHORT: Final = 32
_SHORT_STEP: Final = 8
_STEP: Final = 32
# On a CPU padding costs more than a further shape: 15 % of the processor time for abstracts.
_CPU_STEP: Final = 8
# Texts tokenised and sorted together: enough for full batches of similar length, few enough for memory.
_CHUNK: Final = 8192
_Kept = TypeVar("_Kept")


class Batch(NamedTuple):
    """Group rows that run together.

    ``rows`` are indices into the lengths given; every row is padded to ``width`` tokens.
    """

    width: int
    rows: tuple[int, ...]

    @property
    def cost(self) -> int:
        """Return the number of tokens computed, padding counted."""
        return self.width * len(self.rows)


def padded_width(length: int, limit: int, step: int = _STEP) -> int:
    """Return the multiple of ``step`` (of 8 up to 32) that ``length`` is padded to, never over ``limit``."""
    # Few widths mean few tensor shapes: allocators keep memory for every shape they have seen.
    step = _SHORT_STEP if length <= _SHORT else step
    return max(length, min(-(-max(length, 1) // step) * step, limit))


def plan_batches(lengths: Sequence[int], budget: int, limit: int, step: int = _STEP) -> list[Batch]:
    """Assign every row to one batch, longest rows first, so that running out of memory shows at the start.

    ``budget`` is tokens per batch, padding counted; only a single row may exceed it. ``limit`` is the longest row that
    the model accepts; widths are multiples of ``step``. Which rows share a batch depends on their lengths and order
    alone.
    """
    batches: list[Batch] = []
    width, rows = 0, list[int]()
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        row_width = padded_width(lengths[row], limit, step)
        # A row half as wide would be more padding than text.
        if rows and ((len(rows) + 1) * width > budget or 2 * row_width <= width):
            batches.append(Batch(width, tuple(rows)))
            rows = []
        if not rows:
            width = row_width
        rows.append(row)
    if rows:
        batches.append(Batch(width, tuple(rows)))
    return batches


class Inputs(NamedTuple):
    """Hold the input tensors of one batch, [rows, width] each, on the model's device.

    ``mask`` is 1 for text and 0 for padding.
    """

    ids: torch.Tensor
    segments: torch.Tensor
    mask: torch.Tensor


Forward = Callable[[Inputs], torch.Tensor]


class BatchRunner:
    """Run texts through ``forward``, batch by batch.

    ``forward`` returns float32 [rows, width]; ``lock`` is held for one batch at a time.
    """

    def __init__(self, forward: Forward, width: int, placement: Placement, lock: FifoLock) -> None:
        self._forward = forward
        self._width = width
        self._placement = placement
        self._lock = lock

    def run(
        self, cutter: TruncatingTokenizer, limit: int, texts: Iterator[Text], total: int, progress: Progress | None
    ) -> Floats:
        """Return one row per text, float32 [total, width], in the order of ``texts``.

        ``limit`` is the longest row in tokens. Errors that ``progress`` raises pass through.

        Raises:
            EngineUnavailable: one text alone does not fit into the device's memory.
            ModelNotFound: the results are not finite.
        """
        return self.run_with_places(cutter, limit, texts, total, progress)[0]

    def run_with_places(
        self, cutter: TruncatingTokenizer, limit: int, texts: Iterator[Text], total: int, progress: Progress | None
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Return the rows of ``run``, and for each text how many ``forward`` finished before it, int64 [total]."""
        work = partial(self._run_all, cutter, limit, texts, total, progress)
        return run_in_new_thread(work) if self._placement.device.type == "cpu" else work()

    def _run_all(
        self, cutter: TruncatingTokenizer, limit: int, texts: Iterator[Text], total: int, progress: Progress | None
    ) -> tuple[Floats, NDArray[np.int64]]:
        result = np.empty((total, self._width), np.float32)
        places = np.empty(total, np.int64)
        start = 0
        while chunk := list(islice(texts, _CHUNK)):
            rows = cutter.rows(chunk)
            step = _CPU_STEP if self._placement.device.type == "cpu" else _STEP
            batches = plan_batches([len(row.ids) for row in rows], self._placement.batch_tokens, limit, step)
            done = start
            order: list[int] = []
            outputs: list[torch.Tensor] = []
            for batch in batches:
                outputs.append(self._run(rows, batch, cutter.pad_id))
                order.extend(batch.rows)
                done += len(batch.rows)
                if progress is not None:
                    progress(done, total)
            # Copied from the device once per chunk: a copy waits for all work that the device has queued.
            result[start + np.array(order)] = torch.cat(outputs).cpu().numpy()
            places[start + np.array(order)] = np.arange(start, start + len(chunk))
            start += len(chunk)
        if not np.isfinite(result).all():
            raise ModelNotFound(
                f"the model gave numbers that are not finite in {self._placement.dtype}", ENCODER_UNUSABLE
            )
        return result, places

    def _run(self, rows: Sequence[TokenRow], batch: Batch, pad_id: int) -> torch.Tensor:
        inputs = _padded(rows, batch, pad_id)
        try:
            with self._lock, torch.inference_mode(), self._placement.computing(inputs.ids.numel()):
                device = self._placement.device
                return self._forward(Inputs(*(part.to(device, non_blocking=True) for part in inputs)))
        except torch.OutOfMemoryError as error:
            if len(batch.rows) == 1:
                raise EngineUnavailable(
                    f"a text of {batch.width} tokens does not fit into the memory of {self._placement.device}"
                ) from error
        # Outside the handler: the traceback would keep the failed pass's memory alive.
        if self._placement.device.type == "cuda":
            torch.cuda.empty_cache()
        half = len(batch.rows) // 2
        parts = (Batch(batch.width, batch.rows[:half]), Batch(batch.width, batch.rows[half:]))
        return torch.cat([self._run(rows, part, pad_id) for part in parts])


def _padded(rows: Sequence[TokenRow], batch: Batch, pad_id: int) -> Inputs:
    shape = (len(batch.rows), batch.width)
    ids = np.full(shape, pad_id, np.int64)
    segments = np.zeros(shape, np.int64)
    mask = np.zeros(shape, np.int64)
    for index, number in enumerate(batch.rows):
        row = rows[number]
        length = len(row.ids)
        ids[index, :length] = row.ids
        segments[index, :length] = row.segments
        mask[index, :length] = 1
    return Inputs(torch.from_numpy(ids), torch.from_numpy(segments), torch.from_numpy(mask))


class TransformersEncoder(Fingerprinted):
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
            raise ModelNotFound(
                f"{spec.name}: queries have {self._query.dim} numbers, passages {self._passage.dim}; "
                "its two models do not belong together",
                ENCODER_UNUSABLE,
            )
        self._fingerprint = fingerprint_of(resolved, sha256, self._passage.dim)

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
        ModelNotFound: the model has more than one label.
    """

    def __init__(self, resolved: ResolvedCrossEncoder, options: EncoderOptions) -> None:
        self._spec = resolved.spec
        self._placement = place(options)
        self._sha256 = digests(resolved.folder)
        tokenizer = load_tokenizer(resolved.folder.path)
        model = load_classifier(resolved.folder, self._placement)
        if model.config.num_labels != 1:
            raise ModelNotFound(
                f"{resolved.folder.path} has {model.config.num_labels} labels; a cross-encoder has one, the relevance",
                ENCODER_UNUSABLE,
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
        kept: list[_Kept] = []
        forward = TokenForward(self._forward, self._kept, lambda rotated: kept.append(as_kept(rotated)))
        runner = BatchRunner(forward, self.dim, self._placement, self._lock)
        vectors, places = runner.run_with_places(self.cutter, self._max_tokens, texts, total, None)
        return vectors, [kept[place] for place in places]

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
        hidden: torch.Tensor = self._model(input_ids=inputs.ids, attention_mask=inputs.mask, **extra).last_hidden_state
        return hidden

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
