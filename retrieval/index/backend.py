"""The seam of back ends: what searches one immutable segment. Durable files and exactness are not theirs.

Whatever a back end returns, the caller checks every row against the mask and scores it again unless it is ``exact``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats, Metric
from retrieval.index.columns import Mask
from retrieval.index.spec import Kind, KindChoice

HalfFloats = NDArray[np.float16]
Sink = Callable[[bytes], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentVectors:
    """``vectors`` float16 [rows, dim], centred, a mapped file. ``index_file`` holds the structure of ``kind``, None for
    ``flat``, which has none.
    """

    kind: Kind
    metric: Metric
    vectors: HalfFloats
    index_file: Path | None = None


class Searcher(Protocol):
    """Over one segment. Rows are numbers 0..n-1 within it."""

    @property
    def exact(self) -> bool:
        """Scores are true ones (of centred vectors), in no need of being taken again."""
        ...

    @property
    def filters_exactly(self) -> bool:
        """Of the rows allowed it finds the nearest, however few they are, in no more time than without a mask."""
        ...

    def search(
        self, queries: Floats, k: int, allowed: Mask | None, selectivity: float
    ) -> tuple[NDArray[np.int64], Floats]:
        """Rows [n, at most k] and scores, -1 where there is none. ``selectivity`` is the share of rows allowed."""
        ...

    def bytes_memory(self) -> int:
        """In host or device memory; mapped files not counted. Given back when the searcher is dropped."""
        ...


class Backend(Protocol):
    """Makes searchers. ``BackendUnavailable`` from any of them where the library or device is not there."""

    @property
    def name(self) -> str: ...

    def kind_for(self, choice: KindChoice, rows: int) -> Kind:
        """The type that a new segment of so many rows becomes. IndexInputInvalid where it cannot make ``choice``."""
        ...

    def build(self, data: SegmentVectors, sink: Sink) -> None:
        """Write the structure of ``data.kind`` (never ``flat``) over its vectors."""
        ...

    def open(self, data: SegmentVectors) -> Searcher: ...

    def describe(self) -> dict[str, Any]: ...
