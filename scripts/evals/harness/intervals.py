"""Compute intervals and comparisons of scores. Pure; bootstraps have a fixed seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

Z95: Final = 1.959963984540054
RESAMPLES: Final = 10_000
_BLOCK: Final = 500


@dataclass(frozen=True, slots=True)
class Interval:
    """95 %."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Paired:
    """``difference``: second minus first. ``p``: McNemar's exact test, two-sided; None where scores are not 0 or 1."""

    pairs: int
    first: float
    second: float
    difference: float
    interval: Interval
    gained: int
    lost: int
    p: float | None


def wilson(right: float, total: int) -> Interval:
    """Of a share (Wilson 1927, without correction for continuity); 0 to 1 where there is nothing."""
    if total <= 0:
        return Interval(0.0, 1.0)
    share, square = right / total, Z95 * Z95
    middle = (share + square / (2 * total)) / (1 + square / total)
    half = Z95 / (1 + square / total) * math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def bootstrap_mean(values: Sequence[float], seed: int = 0) -> Interval:
    """Percentiles 2.5 and 97.5 of the means of RESAMPLES samples drawn with replacement."""
    if not values:
        return Interval(0.0, 0.0)
    # Drawing how often each distinct value comes is the same as drawing values, at a fraction of the memory.
    distinct, counts = np.unique(np.asarray(values, dtype=np.float64), return_counts=True)
    generator = np.random.default_rng(seed)
    total = len(values)
    means = np.concatenate(
        [generator.multinomial(total, counts / total, size=_BLOCK) @ distinct for _ in range(RESAMPLES // _BLOCK)]
    )
    low, high = np.percentile(means / total, [2.5, 97.5])
    return Interval(float(low), float(high))


def macro_interval(shares: Sequence[tuple[float, int]]) -> Interval:
    """Of the unweighted mean of (right, total) shares of independent sets, from their Wilson intervals (Zou and Donner
    2008), so that sets with all right or all wrong keep their uncertainty.
    """
    known = [(right / total, wilson(right, total)) for right, total in shares if total]
    if not known:
        return Interval(0.0, 1.0)
    mean = sum(share for share, _ in known) / len(known)
    below = math.sqrt(sum((share - interval.low) ** 2 for share, interval in known)) / len(known)
    above = math.sqrt(sum((interval.high - share) ** 2 for share, interval in known)) / len(known)
    return Interval(mean - below, mean + above)


def mcnemar_exact(gained: int, lost: int) -> float:
    """Two-sided p of the changes under "a change goes either way alike" (McNemar's test with the binomial)."""
    changes = gained + lost
    if changes == 0:
        return 1.0
    tail = sum(math.comb(changes, n) for n in range(min(gained, lost) + 1))
    return float(min(1.0, 2 * tail / 2**changes)) if changes <= 1000 else _mcnemar_large(gained, lost)


def _mcnemar_large(gained: int, lost: int) -> float:
    """The same, from logarithms: 2 to the power of thousands is no float."""
    changes = gained + lost
    logs = [
        math.lgamma(changes + 1) - math.lgamma(n + 1) - math.lgamma(changes - n + 1) - changes * math.log(2)
        for n in range(min(gained, lost) + 1)
    ]
    top = max(logs)
    return min(1.0, 2 * math.exp(top) * sum(math.exp(value - top) for value in logs))


def paired(first: Sequence[float], second: Sequence[float]) -> Paired:
    """``first`` and ``second``: scores of the same questions in the same order, at least one."""
    differences = [b - a for a, b in zip(first, second, strict=True)]
    gained, lost = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    binary = all(score in (0.0, 1.0) for score in (*first, *second))
    return Paired(
        pairs=len(differences),
        first=sum(first) / len(first),
        second=sum(second) / len(second),
        difference=sum(differences) / len(differences),
        interval=bootstrap_mean(differences),
        gained=gained,
        lost=lost,
        p=mcnemar_exact(gained, lost) if binary else None,
    )
