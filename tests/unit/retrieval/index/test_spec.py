"""The types of a vector index: choice by size, probes, refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.index.errors import IndexInputInvalid
from retrieval.index.spec import IndexSpec, kind_for, kind_of, lists_for, pq_parts, probes_for


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


@pytest.mark.parametrize("changes", [{"dim": 0}, {"metric": "cosine"}, {"kind": "lsh"}])
def test_a_spec_that_cannot_be_is_refused(changes: dict[str, object]) -> None:
    """By name of the field."""
    with pytest.raises(IndexInputInvalid) as fault:
        IndexSpec(**{"dim": 8, "metric": "l2", **changes})  # type: ignore[arg-type]
    assert fault.value.param in changes
