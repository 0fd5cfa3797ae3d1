"""Describe what an index is made for, and choose its type by the number of rows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from models.encoders.base import Metric
from retrieval.index.errors import IndexInputInvalid

Kind = Literal["flat", "sq8", "ivf-sq8", "ivf-pq", "hnsw", "ivf-rabitq"]
KindChoice = Literal["auto", "flat", "sq8", "ivf-sq8", "ivf-pq", "hnsw", "ivf-rabitq"]
BackendName = Literal["faiss", "faiss-gpu", "torch"]
KINDS: Final[tuple[Kind, ...]] = ("flat", "sq8", "ivf-sq8", "ivf-pq", "hnsw", "ivf-rabitq")
METRICS: Final[tuple[Metric, ...]] = ("inner_product", "l2")
EXACT_ROWS: Final = 50_000
# Below this a full scan costs less than any structure, and k-means has too little training data.
MIN_APPROXIMATE_ROWS: Final = 1_000
_MAX_DIM: Final = 16_384
_POINTS_PER_LIST: Final = 39
_MAX_PQ_PARTS: Final = 96
PROBE_SHARE: Final = 0.25  # of an IVF type's lists, where no filter makes it more
# Shares that are tried, in order, until a segment's recall at 10 reaches the goal; then the type that scans all rows.
PROBE_SHARES: Final = (PROBE_SHARE, 0.5, 1.0)
RECALL_GOAL: Final = 0.97
SAFE_KIND: Final[Kind] = "sq8"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """Describe the encoder, type and back end of an index.

    ``encoder`` is the fingerprint of the encoder of the vectors; an index opens only with the same one. ``kind``
    determines the type of new segments; existing ones stay as they are. ``backend`` searches; any back end opens an
    index that another has made.

    Raises:
        IndexInputInvalid: an invalid name or number.
    """

    dim: int
    metric: Metric
    kind: KindChoice = "auto"
    encoder: Mapping[str, Any] = field(default_factory=dict)
    backend: BackendName = "faiss"

    def __post_init__(self) -> None:
        if not 1 <= self.dim <= _MAX_DIM:
            raise IndexInputInvalid(f"a dimension of {self.dim} is not in 1..{_MAX_DIM}", param="dim")
        if self.metric not in METRICS:
            raise IndexInputInvalid(f"no such metric: {self.metric}", param="metric")
        if self.kind != "auto" and self.kind not in KINDS:
            raise IndexInputInvalid(f"no such index type: {self.kind}; there are {', '.join(KINDS)}", param="kind")

    def encoder_json(self) -> dict[str, Any]:
        """Return the fingerprint after a JSON round trip (tuples become lists), for comparison."""
        plain: dict[str, Any] = json.loads(json.dumps(dict(self.encoder), sort_keys=True))
        return plain


def kind_for(rows: int) -> Kind:
    """Return flat where a scan takes milliseconds, else the type with the best recall per byte and build time."""
    return "flat" if rows <= EXACT_ROWS else "ivf-rabitq"


def kind_of(choice: KindChoice, rows: int) -> Kind:
    """Return the type of a segment: the requested one, but always exact for a small segment."""
    if choice == "auto":
        return kind_for(rows)
    return "flat" if rows < MIN_APPROXIMATE_ROWS else choice


def lists_for(rows: int) -> int:
    """Return the number of inverted lists of an IVF type.

    It is four times the square root of the rows up to a million, then a power of two.
    """
    lists = 4 * math.isqrt(rows) if rows <= 1_000_000 else 16_384 if rows <= 10_000_000 else 65_536
    return max(1, min(lists, rows // _POINTS_PER_LIST))


def pq_parts(dim: int) -> int:
    """Return bytes per vector of ``ivf-pq``: the largest divisor of the dimension with at least 4 numbers per part."""
    most = min(_MAX_PQ_PARTS, max(1, dim // 4))
    return next(parts for parts in range(most, 0, -1) if dim % parts == 0)


def probes_for(lists: int, share: float, selectivity: float = 1.0) -> int:
    """Return the number of lists to probe: ``share`` of them, more under a selective filter, where recall falls."""
    probes = lists * share * min(16.0, 1.0 / math.sqrt(max(selectivity, 1e-9)))
    return max(1, min(lists, math.ceil(probes)))


# Nanoseconds of one core, measured by scripts/benchmarks/retrieval/filtered_search.py (docs/benchmarks.md).
_GATHER_NUMBER_NS: Final = 5.0  # to fetch one float16 of a row that passes and convert it, once for all queries
_SCORE_NUMBER_NS: Final = 0.15  # to multiply it, for each query
_VISIT_ROW_NS: Final = 60.0  # to test one row of the structure and, where it passes, to estimate its score
_SEARCH_NS: Final = 1_000_000.0  # of a search of the structure with its rescoring, besides the rows


def is_gathering_cheaper(passing: int, shape: tuple[int, int], queries: int) -> bool:
    """Return whether it costs less to score just the rows that pass a filter than to search the structure under it.

    ``shape`` is the segment's (rows, dimension). A search visits the rows of the lists that it probes, more under a
    selective filter (``probes_for``). To score the rows that pass costs their numbers; all queries share the fetching.
    """
    rows, dim = shape
    visited = probes_for(rows, PROBE_SHARE, passing / rows)
    search = queries * (_SEARCH_NS + _VISIT_ROW_NS * visited)
    return passing * dim * (_GATHER_NUMBER_NS + _SCORE_NUMBER_NS * queries) < search
