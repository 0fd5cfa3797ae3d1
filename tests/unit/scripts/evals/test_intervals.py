"""Intervals against published or computed values."""

from __future__ import annotations

import pytest

from scripts.evals.harness.intervals import bootstrap_mean, paired_difference, wilson


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    [
        # Newcombe 1998, table I: 81/263, 15/148, 0/20, 1/29.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_intervals_are_those_of_the_literature(right: int, total: int, low: float, high: float) -> None:
    """To four places."""
    found = wilson(right, total)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


def test_a_bootstrap_of_a_share_agrees_with_theory_and_with_itself() -> None:
    """300 right of 1,000: 0.3 ± 1.96 × 0.0145."""
    found = bootstrap_mean([1.0] * 300 + [0.0] * 700)
    assert found == bootstrap_mean([1.0] * 300 + [0.0] * 700)
    assert [found.low, found.high] == pytest.approx([0.2716, 0.3284], abs=0.003)


def test_a_paired_difference_is_of_the_same_questions() -> None:
    change, interval = paired_difference([1, 1, 0, 0, 1], [1, 0, 1, 1, 1])
    assert change == pytest.approx(0.2)
    assert interval.low <= 0.2 <= interval.high
