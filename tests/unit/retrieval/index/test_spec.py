"""The types of a vector index: choice by size, probes, refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import IndexInputInvalid
from retrieval.index.spec import IndexSpec, is_gathering_cheaper, kind_for, kind_of, lists_for, pq_parts, probes_for


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


def _gathers_up_to(rows: int, dim: int, queries: int = 1) -> int:
    """The greatest number of rows that pass and are scored themselves."""
    return max(
        passing for passing in range(0, rows + 1, rows // 1_000) if is_gathering_cheaper(passing, (rows, dim), queries)
    )


def test_a_search_under_a_filter_takes_the_way_that_was_measured_as_the_cheaper_one() -> None:
    """The crossings of docs/benchmarks.md: of 10,000 rows between 486 and 2,011, of 100,000 between 1,956 and 4,996."""
    assert 486 <= _gathers_up_to(10_000, 384) <= 2_011
    assert 1_956 <= _gathers_up_to(100_000, 384) <= 4_996
    assert not is_gathering_cheaper(9_999, (100_000, 384), 1)


def test_the_way_follows_rows_dimension_and_queries() -> None:
    """Longer vectors cost the fetching more, more rows the search, and queries share the fetching."""
    base = _gathers_up_to(100_000, 384)
    assert _gathers_up_to(100_000, 768) < base < _gathers_up_to(1_000_000, 384)
    assert base < _gathers_up_to(100_000, 384, 32) < 50_000
    assert is_gathering_cheaper(1, (1_000, 16_384), 1)


@pytest.mark.parametrize("changes", [{"dim": 0}, {"metric": "cosine"}, {"kind": "lsh"}])
def test_a_spec_that_cannot_be_is_refused(changes: dict[str, object]) -> None:
    """By name of the field."""
    with pytest.raises(IndexInputInvalid) as fault:
        IndexSpec(**{"dim": 8, "metric": "l2", **changes})  # type: ignore[arg-type]
    assert fault.value.param in changes
