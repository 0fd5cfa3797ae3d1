"""Compute intervals of scores at 95 %. Pure; bootstraps have a fixed seed."""

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


def paired_difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, Interval]:
    """Second minus first, of the scores of the same questions in the same order."""
    differences = [b - a for a, b in zip(first, second, strict=True)]
    return sum(differences) / max(1, len(differences)), bootstrap_mean(differences)
