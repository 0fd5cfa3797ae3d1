"""Fit the temperatures of the two heads on the development halves, and choose the operating points there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.verifiers.base import OperatingPoints
from scripts.verifier.dev_sets import Group
from scripts.verifier.gate import Asked, outcomes
from scripts.verifier.samples import UNTOLD
from scripts.verifier.scoring import Judge, Judged, given, told

Logits = NDArray[np.float32]
_TEMPERATURES: Final = np.exp(np.linspace(np.log(0.4), np.log(4.0), 120))
_BARS: Final = np.round(np.arange(0.02, 0.99, 0.01), 2)
# The error rates for which the points are chosen.
WRONG_QUOTES: Final = 0.2
ANSWERED_WRONGLY: Final = 0.05
WRONG_VERDICTS: Final = 0.08
FALSELY_LABELLED: Final = 0.1
MISSED: Final = 0.05


@dataclass(frozen=True, slots=True)
class Temperatures:
    relevance: float
    verdict: float


def fitted(logits: Logits, groups: Sequence[Group]) -> Temperatures:
    """Return the temperatures of least loss; each set of ``groups`` that has a row counts by its rows."""
    relevance = np.array([one for group in groups for one in group.relevance])
    verdict = np.array([one for group in groups for one in group.verdicts])
    known, said = relevance != UNTOLD, verdict != UNTOLD
    return Temperatures(
        _least(lambda heat: _binary_loss(logits[known, 0] / heat, relevance[known])),
        _least(lambda heat: _three_way_loss(logits[said, 1:] / heat, verdict[said])),
    )


def quote_bar(groups: Sequence[Judged]) -> float:
    """Return the lowest bar at which no more than ``WRONG_QUOTES`` of the best pairs that reach it are irrelevant."""
    probability = np.array([one.judgements[one.best].relevance for one in groups])
    relevant = np.array([one.group.relevance[one.best] for one in groups])
    return _lowest(lambda bar: _share(relevant[probability >= bar] == 0) <= WRONG_QUOTES)


def screen_bar(groups: Sequence[Judged]) -> float:
    """Return the highest bar that no more than ``MISSED`` of the relevant pairs fail."""
    probability, relevant = told(groups)
    fits = [bar for bar in _BARS if _share(probability[relevant == 1] < bar) <= MISSED]
    return float(max(fits, default=_BARS[0]))


def verdict_bar(groups: Sequence[Judged]) -> float:
    """Return the lowest bar at which no more than ``WRONG_VERDICTS`` of the given ones are wrong."""
    return _lowest(lambda bar: 1 - given(groups, bar)[1] <= WRONG_VERDICTS)


def label_bar(groups: Sequence[Judged]) -> float:
    """Return the highest bar of supports that no more than ``FALSELY_LABELLED`` of the supported claims fail."""
    rows = [
        row[0]
        for one in groups
        for row, verdict in zip(one.probabilities, one.group.verdicts, strict=True)
        if verdict == 0
    ]
    fits = [bar for bar in _BARS if _share(np.array(rows) < bar) <= FALSELY_LABELLED]
    return float(max(fits, default=_BARS[0]))


def answer_bar(asked: Sequence[Asked], judge: Judge) -> float:
    """Return the lowest bar that no more than ``ANSWERED_WRONGLY`` of the questions without an answer reach."""
    every = outcomes(asked, judge, OperatingPoints(0, 0, 1, 0, 0))
    nothing = np.array([one.relevance for one in every if not one.asked.is_answerable])
    return _lowest(lambda bar: _share(nothing >= bar) <= ANSWERED_WRONGLY)


def expected_error(probability: NDArray[np.float64], is_true: NDArray[np.bool_], bins: int = 10) -> float:
    """Return the expected calibration error over bins of equal width."""
    places = np.minimum((probability * bins).astype(int), bins - 1)
    gaps = [
        (places == place).mean() * abs(probability[places == place].mean() - is_true[places == place].mean())
        for place in range(bins)
        if (places == place).any()
    ]
    return float(sum(gaps))


def reliability_plot(sets: Mapping[str, tuple[NDArray[np.float64], NDArray[np.bool_]]], file: Any) -> None:
    """Draw for each set how often a probability is right, in ten bins."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(4.6, 4.2))
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for name, (probability, is_true) in sets.items():
        places = np.minimum((probability * 10).astype(int), 9)
        bins = [place for place in range(10) if (places == place).sum() >= 10]
        shown = [(probability[places == place].mean(), is_true[places == place].mean()) for place in bins]
        error = expected_error(probability, is_true)
        axes.plot(*zip(*shown, strict=True), marker="o", markersize=3.5, label=f"{name} (error {error:.3f})")
    axes.set_xlabel("probability")
    axes.set_ylabel("share that is so")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _lowest(fits: Any) -> float:
    return float(next((bar for bar in _BARS if fits(bar)), _BARS[-1]))


def _least(loss: Any) -> float:
    return float(min(_TEMPERATURES, key=loss))


def _share(values: Any) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def _binary_loss(logits: Logits, targets: NDArray[np.int64]) -> float:
    return float(np.mean(np.logaddexp(0, logits) - targets * logits))


def _three_way_loss(logits: Logits, targets: NDArray[np.int64]) -> float:
    highest = logits.max(axis=1)
    whole = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
    return float(np.mean(whole - logits[np.arange(len(targets)), targets]))
