"""Define the interface of back ends, which search one immutable segment.

Durable files and exactness are the caller's concern: it checks every returned row against the mask and rescores it
unless the searcher is ``exact``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats, Metric
from retrieval.index.base import Mask
from retrieval.index.spec import PROBE_SHARE, Kind, KindChoice

HalfFloats = NDArray[np.float16]
Sink = Callable[[bytes], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentVectors:
    """Hold the vectors of one segment and the file of its search structure.

    ``vectors`` float16 [rows, dim], centred, memory-mapped. ``index_file`` holds the structure of ``kind``, None for
    ``flat``, which has none. ``probe_share`` of an IVF type's lists are probed.
    """

    kind: Kind
    metric: Metric
    vectors: HalfFloats
    index_file: Path | None = None
    probe_share: float = PROBE_SHARE


class Searcher(Protocol):
    """Search one segment, whose rows are numbered 0..n-1."""

    @property
    def exact(self) -> bool:
        """Return whether scores are exact (of centred vectors) and need no rescoring."""
        ...

    @property
    def filters_exactly(self) -> bool:
        """Return whether a masked search finds the nearest allowed rows, however few they are.

        It must also take no more time than a search without a mask.
        """
        ...

    def search(
        self, queries: Floats, k: int, allowed: Mask | None, selectivity: float
    ) -> tuple[NDArray[np.int64], Floats]:
        """Return rows [n, at most k] and their scores.

        Rows are -1 where there is no hit. ``selectivity`` is the share of allowed rows.
        """
        ...

    def bytes_memory(self) -> int:
        """Return the bytes in host or device memory, without memory-mapped files.

        The memory is released when the searcher is dropped.
        """
        ...


class Backend(Protocol):
    """Build and open the search structures of segments.

    Raises:
        BackendUnavailable: from any method, if the library or device is missing.
    """

    @property
    def name(self) -> str: ...

    def kind_for(self, choice: KindChoice, rows: int) -> Kind:
        """Return the index type of a new segment with that number of rows.

        Raises:
            IndexInputInvalid: the back end cannot build ``choice``.
        """
        ...

    def build(self, data: SegmentVectors, sink: Sink) -> None:
        """Write the structure of ``data.kind`` (never ``flat``) over its vectors."""
        ...

    def open(self, data: SegmentVectors) -> Searcher: ...

    def describe(self) -> dict[str, Any]: ...
