"""Intervals and tests against published or computed values."""

from __future__ import annotations

import math

import pytest

from scripts.evals.harness.intervals import bootstrap_mean, macro_interval, mcnemar_exact, paired, wilson


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


@pytest.mark.parametrize(
    ("gained", "lost", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (0, 6, 0.03125), (10, 10, 1.0), (9, 1, 0.021484375)],
)
def test_mcnemar_is_the_two_sided_binomial(gained: int, lost: int, p: float) -> None:
    """Twice the smaller tail, at most 1."""
    assert mcnemar_exact(gained, lost) == p
    assert mcnemar_exact(lost, gained) == p


def test_mcnemar_of_thousands_is_the_normal_one() -> None:
    """2,000 changes, where the binomial is all but normal and its weights are beyond floats."""
    z = (abs(1080 - 920) - 1) / math.sqrt(2000)
    assert mcnemar_exact(1080, 920) == pytest.approx(math.erfc(z / math.sqrt(2)), rel=0.01)


def test_a_bootstrap_of_a_share_agrees_with_theory_and_with_itself() -> None:
    """300 right of 1,000: 0.3 ± 1.96 × 0.0145."""
    found = bootstrap_mean([1.0] * 300 + [0.0] * 700)
    assert found == bootstrap_mean([1.0] * 300 + [0.0] * 700)
    assert [found.low, found.high] == pytest.approx([0.2716, 0.3284], abs=0.003)


def test_pairs_tell_gains_from_losses() -> None:
    """Shares have no McNemar test."""
    found = paired([1, 1, 0, 0, 1], [1, 0, 1, 1, 1])
    assert (found.first, found.second, found.gained, found.lost, found.p) == (0.6, 0.8, 2, 1, 1.0)
    assert found.difference == pytest.approx(0.2)
    assert found.interval.low <= 0.2 <= found.interval.high
    assert paired([0.5, 1.0], [1.0, 1.0]).p is None


def test_a_macro_mean_has_the_spread_of_its_sets() -> None:
    """Of two like sets the half width shrinks by the root of two; a set without replies is none; none right is not
    certain to be none.
    """
    one, two = wilson(50, 100), macro_interval([(50, 100), (50, 100), (0, 0)])
    assert (two.high - 0.5) == pytest.approx((one.high - 0.5) / math.sqrt(2))
    assert macro_interval([(50, 100)]) == one
    none = macro_interval([(0, 10), (0, 10)])
    assert (none.low, round(none.high, 3)) == (0.0, 0.196)
    assert macro_interval([]) == wilson(0, 0)
