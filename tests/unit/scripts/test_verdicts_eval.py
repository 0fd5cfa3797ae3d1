"""Verdicts alone: what counts as right, and how questions with several passages are weighted."""

from __future__ import annotations

import math

import pytest

from scripts.evals.verdicts import Found, area, row, share

YES, NO, OPEN = (0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.1, 0.1, 0.8)


def test_the_area_is_the_share_of_pairs_in_order() -> None:
    """Unclear items have no part in it; equal probabilities count half."""
    found = [Found("yes", 1, YES), Found("yes", 1, NO), Found("no", 1, NO), Found("unclear", 1, YES)]
    assert area(found) == pytest.approx(0.75)


def test_a_question_with_many_passages_weighs_as_much_as_one_with_few() -> None:
    found = [Found("yes", 0.5, YES), Found("yes", 0.5, YES), Found("yes", 1, NO)]
    assert share((one, one.shares is YES) for one in found) == pytest.approx(0.5)
    assert math.isnan(share([]))


def test_what_is_left_open_is_not_right_for_yes_or_no_and_is_for_unclear() -> None:
    found = [Found("yes", 1, YES), Found("yes", 1, OPEN), Found("no", 1, NO), Found("unclear", 1, OPEN)]
    cells = row("bioasq", found, ["Yes", "Unclear", "No", "Unclear"])
    assert cells == ["bioasq", "4", "1.000", "0.667", "0.500", "1.000", "1.000", "1.000"]
