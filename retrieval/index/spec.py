"""Describe what an index is made for, choose its type, and estimate and account for the memory that it needs.

An engine measures the free memory of the whole device when it starts, so whatever is loaded concurrently or later
conflicts with it. Claims are therefore made in one order, index, encoder, engine, and the engine gets the rest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from models.encoders.base import Metric
from retrieval.errors import INDEX_INPUT_INVALID, IndexFault

Kind = Literal["flat", "sq8", "ivf-sq8", "ivf-pq", "hnsw", "ivf-rabitq"]
KindChoice = Literal["auto", "flat", "sq8", "ivf-sq8", "ivf-pq", "hnsw", "ivf-rabitq"]
BackendName = Literal["faiss", "faiss-gpu", "torch"]
# How a filter is applied: score the rows that pass, scan a copy of all rows, or search the structure.
FilteredSearch = Literal["gather", "scan", "structure"]
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
# Nanoseconds of one core, measured by scripts/benchmarks/retrieval/filtered_search.py (docs/benchmarks.md).
_GATHER_NUMBER_NS: Final = 5.0  # to fetch one float16 of a row that passes and convert it, once for all queries
_SCORE_NUMBER_NS: Final = 0.15  # to multiply it, for each query
_TEST_ROW_NS: Final = 3.0  # to test one row of a scan
_SCAN_NUMBER_NS: Final = 0.6  # to multiply one number of a row that passes a scan's test
_VISIT_ROW_NS: Final = 60.0  # to test one row of the lists that are probed and, where it passes, to estimate its score
_HNSW_NUMBER_NS: Final = 8.0  # of one candidate of a graph, with its links
_SEARCH_NS: Final = 1_000_000.0  # of a search of the structure with its rescoring, besides the rows
_EF_SEARCH: Final = 128
_NEARLY_ALL: Final = 0.9  # as where some rows were deleted
GIB: Final = 1 << 30
_COLUMN_BYTES: Final = 8 + 4 + 8 + 4
_ALIVE_BYTES: Final = 1
_ID_BYTES: Final = 8
# Two times 32 links of 4 bytes on the lowest level, and the levels above.
_HNSW_LINK_BYTES: Final = 272
_RABITQ_FACTOR_BYTES: Final = 8
_BUILD_BLOCK: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """Describe the encoder, type and back end of an index.

    ``encoder`` is the fingerprint of the encoder of the vectors; an index opens only with the same one. ``kind``
    determines the type of new segments; existing ones stay as they are. ``backend`` searches; any back end opens an
    index that another has made.

    Raises:
        IndexFault: an invalid name or number.
    """

    dim: int
    metric: Metric
    kind: KindChoice = "auto"
    encoder: Mapping[str, Any] = field(default_factory=dict)
    backend: BackendName = "faiss"

    def __post_init__(self) -> None:
        if not 1 <= self.dim <= _MAX_DIM:
            raise IndexFault(f"a dimension of {self.dim} is not in 1..{_MAX_DIM}", INDEX_INPUT_INVALID, param="dim")
        if self.metric not in METRICS:
            raise IndexFault(f"no such metric: {self.metric}", INDEX_INPUT_INVALID, param="metric")
        if self.kind != "auto" and self.kind not in KINDS:
            raise IndexFault(
                f"no such index type: {self.kind}; there are {', '.join(KINDS)}", INDEX_INPUT_INVALID, param="kind"
            )

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


def ef_search_for(selectivity: float = 1.0) -> int:
    """Return the number of candidates of a search of a graph, more under a selective filter.

    Rows that pass may lie together, far from the question: twice what evenly spread ones would need.
    """
    wider = 1.0 if selectivity > _NEARLY_ALL else min(16.0, 2.0 / max(selectivity, 1e-9))
    return int(_EF_SEARCH * wider)


def filtered_search(kind: Kind, shape: tuple[int, int], passing: int, queries: int, *, scans: bool) -> FilteredSearch:
    """Return the way to search a segment under a filter that costs least; of equal ones, the more exact.

    ``shape`` is the segment's (rows, dimension); ``scans`` tells whether there is a copy of all rows to scan. To score
    the rows that pass costs their numbers, whose fetching all queries share; a scan tests every row, which is fast, and
    multiplies those that pass; a search visits the rows of the lists that it probes, or the candidates of a graph, more
    under a selective filter.
    """
    rows, dim = shape
    if kind == "hnsw":
        visits = ef_search_for(passing / rows) * dim * _HNSW_NUMBER_NS
    else:
        visits = probes_for(rows, PROBE_SHARE, passing / rows) * _VISIT_ROW_NS
    costs: dict[FilteredSearch, float] = {
        "gather": passing * dim * (_GATHER_NUMBER_NS + _SCORE_NUMBER_NS * queries),
        "scan": queries * (rows * _TEST_ROW_NS + passing * dim * _SCAN_NUMBER_NS) if scans else math.inf,
        "structure": queries * (_SEARCH_NS + visits),
    }
    return min(costs, key=lambda way: costs[way])


@dataclass(frozen=True, slots=True)
class Estimate:
    """Hold the estimated bytes of an index.

    ``memory`` is what searches access (pages of memory-mapped files too), ``build`` the additional peak while it is
    built.
    """

    memory: int
    disk: int
    build: int


def estimate(kind: Kind, rows: int, dim: int) -> Estimate:
    """Return the estimate for one index of ``rows`` x ``dim``, from measured formats.

    38 million x 768 flat takes 54.4 GiB in memory.
    """
    kind = "flat" if rows < MIN_APPROXIMATE_ROWS else kind
    lists = lists_for(rows) * dim * 4 if kind.startswith("ivf") else 0
    structure = rows * _row_bytes(kind, dim) + lists
    stored = rows * (2 * dim + _COLUMN_BYTES)
    memory = structure + rows * _ALIVE_BYTES
    disk = stored if kind == "flat" else stored + structure
    sample = min(rows, max(_BUILD_BLOCK, 64 * lists_for(rows))) * dim * 4
    return Estimate(memory, disk, 0 if kind == "flat" else structure + 2 * sample)


def _row_bytes(kind: Kind, dim: int) -> int:
    sizes: dict[Kind, int] = {
        "flat": 2 * dim,
        "sq8": dim,
        "ivf-sq8": dim + _ID_BYTES,
        "ivf-pq": pq_parts(dim) + _ID_BYTES,
        "hnsw": 2 * dim + _HNSW_LINK_BYTES,
        "ivf-rabitq": dim // 8 + _RABITQ_FACTOR_BYTES + dim + _ID_BYTES,
    }
    return sizes[kind]
