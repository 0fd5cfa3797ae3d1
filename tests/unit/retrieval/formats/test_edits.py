"""Words one edit away, and how many edits lie between two words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.formats.edits import edit_distance, single_edits


@pytest.mark.parametrize(
    ("one", "other", "edits"), [("abc", "abc", 0), ("abc", "acb", 1), ("abc", "ab", 1), ("a", "xyz", 3)]
)
def test_edits_are_counted_up_to_a_bound(one: str, other: str, edits: int) -> None:
    """Neighbours' exchange is one."""
    assert edit_distance(one, other, 2) == edits


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_the_words_one_edit_away_are_those_at_that_distance(one: str, other: str) -> None:
    assert (other in {*single_edits(one)} - {one}) == (edit_distance(one, other, 1) == 1)


def test_edits_may_begin_at_a_place() -> None:
    """The first letter stays where they begin behind it."""
    assert all(word.startswith("t") for word in single_edits("tumor", 1))
