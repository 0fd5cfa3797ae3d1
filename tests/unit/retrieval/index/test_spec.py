"""The types of a vector index: choice by size, probes, refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import INDEX_INPUT_INVALID, IndexFault
from retrieval.index.spec import (
    IndexSpec,
    ef_search_for,
    filtered_search,
    kind_for,
    kind_of,
    lists_for,
    pq_parts,
    probes_for,
)


def test_the_type_follows_the_number_of_rows() -> None:
    """Exact up to fifty thousand; a small segment is exact whatever was asked for."""
    assert [kind_for(rows) for rows in (0, 50_000, 50_001, 4_000_000)] == ["flat", "flat", "ivf-rabitq", "ivf-rabitq"]
    assert kind_of("hnsw", 999) == "flat"
    assert kind_of("hnsw", 1_000) == "hnsw"
    assert (lists_for(1_000_000), lists_for(38_000_000), lists_for(10)) == (4_000, 65_536, 1)
    assert [pq_parts(dim) for dim in (768, 384, 32, 7, 1)] == [96, 96, 8, 1, 1]


@given(st.integers(1, 65_536), st.floats(0.01, 1), st.floats(0, 1))
def test_probes_grow_with_selectivity_within_their_bounds(lists: int, share: float, selectivity: float) -> None:
    """Never none, never more than there are, never fewer for a narrower filter."""
    probes = probes_for(lists, share, selectivity)

    assert probes_for(lists, share) <= probes <= lists
    assert probes >= 1


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_narrower_filter_never_takes_fewer_candidates_of_a_graph(one: float, other: float) -> None:
    """Between those of an unfiltered search and sixteen times as many."""
    narrow, wide = sorted((one, other))

    assert ef_search_for() <= ef_search_for(wide) <= ef_search_for(narrow) <= 16 * ef_search_for()


def _gathers_up_to(rows: int, dim: int, queries: int = 1) -> int:
    """The greatest number of rows that pass and are scored themselves, where there is no copy to scan."""
    ways = {
        n: filtered_search("ivf-sq8", (rows, dim), n, queries, scans=False) for n in range(0, rows + 1, rows // 1_000)
    }
    return max(passing for passing, way in ways.items() if way == "gather")


def test_a_search_under_a_filter_takes_the_way_that_was_measured_as_the_cheapest_one() -> None:
    """The crossings of docs/benchmarks.md, of 10,000 and 100,000 rows without a copy, and of 50,000 in two types."""
    assert 486 <= _gathers_up_to(10_000, 384) <= 2_011
    assert 1_956 <= _gathers_up_to(100_000, 384) <= 4_996
    graph = {n: filtered_search("hnsw", (50_000, 384), n, 1, scans=True) for n in (50, 2_444, 9_925, 39_813)}
    assert graph == {50: "gather", 2_444: "scan", 9_925: "scan", 39_813: "structure"}
    lists = {n: filtered_search("ivf-rabitq", (50_000, 384), n, 1, scans=True) for n in (50, 2_444, 9_925, 39_813)}
    assert lists == {50: "gather", 2_444: "scan", 9_925: "scan", 39_813: "structure"}


def test_the_way_follows_rows_dimension_and_queries() -> None:
    """Longer vectors cost the fetching more, more rows the search, and queries share the fetching."""
    base = _gathers_up_to(100_000, 384)
    assert _gathers_up_to(100_000, 768) < base < _gathers_up_to(1_000_000, 384)
    assert base < _gathers_up_to(100_000, 384, 32) < 50_000
    assert filtered_search("ivf-sq8", (1_000, 16_384), 1, 1, scans=False) == "gather"
    assert filtered_search("sq8", (4_000_000, 384), 400, 1, scans=True) == "gather"


@pytest.mark.parametrize("changes", [{"dim": 0}, {"metric": "cosine"}, {"kind": "lsh"}])
def test_a_spec_that_cannot_be_is_refused(changes: dict[str, object]) -> None:
    """By name of the field."""
    with pytest.raises(IndexFault, check=INDEX_INPUT_INVALID.is_of) as fault:
        IndexSpec(**{"dim": 8, "metric": "l2", **changes})  # type: ignore[arg-type]
    assert fault.value.param in changes
