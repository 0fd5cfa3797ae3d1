"""Which segments a commit merges."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from retrieval.index.segments.snapshot import SegmentGroup, groups_at_commit, packed


@given(st.lists(st.integers(1, 40_000), max_size=60))
def test_merging_keeps_every_part_once_and_the_number_of_segments_small(sizes: list[int]) -> None:
    """Committed one by one: fewer than eight in each tier that may still be merged."""
    pieces: list[SegmentGroup] = []
    for number, size in enumerate(sizes, start=1):
        pieces = groups_at_commit(pieces, [SegmentGroup((number,), size, 0)], 4_000_000)

    assert sorted(part for piece in pieces for part in piece.parts) == list(range(1, len(sizes) + 1))
    assert sum(piece.alive for piece in pieces) == sum(sizes)
    assert len(pieces) <= 7 * 4


def test_packing_keeps_within_the_largest_segment() -> None:
    """Small ones go together first."""
    found = packed([SegmentGroup((n,), size, 0) for n, size in enumerate([70, 20, 50, 40, 100])], 100)

    assert [piece.alive for piece in found] == [60, 50, 70, 100]
