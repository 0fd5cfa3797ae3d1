"""Run tokenised texts through a model in sorted batches of bounded size, and restore their order.

Uses plain transformers rather than sentence-transformers' ``encode``: that sorts by characters and batches by number of
texts, so half of what it computes is padding; it silently pools a folder without modules.json by the mean; and it
applies a sigmoid to a cross-encoder's logit. All three are explicit here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from models.encoders.base import Floats, Progress
from models.encoders.texts import Text, TokenRow, TruncatingTokenizer
from models.encoders.transformers_encoder.loading import FifoLock, Placement
from models.errors import EncoderUnusable, EngineUnavailable
from models.torch_runtime.openmp import run_in_new_thread

_SHORT: Final = 32


_SHORT_STEP: Final = 8


_STEP: Final = 32


# On a CPU padding costs more than a further shape: 15 % of the processor time for abstracts.
_CPU_STEP: Final = 8


# Texts tokenised and sorted together: enough for full batches of similar length, few enough for memory.
_CHUNK: Final = 8192


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
            EncoderUnusable: the results are not finite.
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
            raise EncoderUnusable(f"the model gave numbers that are not finite in {self._placement.dtype}")
        return result, places

    def _run(self, rows: Sequence[TokenRow], batch: Batch, pad_id: int) -> torch.Tensor:
        inputs = _padded(rows, batch, pad_id)
        try:
            with self._lock, torch.inference_mode(), self._placement.computing():
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
