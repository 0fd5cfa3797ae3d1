"""Fit what makes probabilities of logits on the development halves, and choose the operating points there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from models.verifiers.base import OperatingPoints
from models.verifiers.cross_encoder import Calibration
from scripts.verifier.dev_sets import Group
from scripts.verifier.gate import Asked, outcomes, with_nothing
from scripts.verifier.samples import CONTRADICTS, NEITHER, SUPPORTS, UNTOLD
from scripts.verifier.scoring import Judge, Judged, given, told

Logits = NDArray[np.float32]
_TEMPERATURES: Final = np.exp(np.linspace(np.log(0.4), np.log(4.0), 120))
_BARS: Final = np.round(np.arange(0.02, 0.99, 0.01), 2)
# A sentence may be labelled from a far smaller probability on.
_LABEL_BARS: Final = np.concatenate([[0.001, 0.002, 0.005, 0.01], _BARS])
# The error rates for which the points are chosen.
QUOTED_WRONGLY: Final = 0.3
ANSWERED_WRONGLY: Final = 0.05
WRONG_VERDICTS: Final = 0.08
# Paraphrases are harder than the claims of the sets, so none of these may fail.
FALSELY_LABELLED: Final = 0.0
MISSED: Final = 0.05


def fitted(logits: Logits, groups: Sequence[Group]) -> Calibration:
    """Return the calibration of least loss on all pairs of the groups, whose logits stand in their order."""
    relevance = np.array([one for group in groups for one in group.relevance])
    verdict = np.array([one for group in groups for one in group.verdicts])
    known, sided = relevance != UNTOLD, (verdict == SUPPORTS) | (verdict == CONTRADICTS)
    # Of other questions than those of yes or no, only the pairs that do not answer have a verdict.
    said = np.array([UNTOLD not in group.verdicts for group in groups for _ in group.pairs])
    margin = logits[:, 1] - logits[:, 2]
    either = np.logaddexp(logits[:, 1], logits[:, 2]) - logits[:, 3]
    model = LogisticRegression(C=100.0, max_iter=500)
    model.fit((logits[:, 0] + either)[said, None], verdict[said] != NEITHER)
    return Calibration(
        _least(lambda heat: _binary_loss(logits[known, 0] / heat, relevance[known])),
        _least(lambda heat: _binary_loss(margin[sided] / heat, verdict[sided] == SUPPORTS)),
        (float(model.coef_[0, 0]), float(model.intercept_[0])),
    )


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
    fits = [bar for bar in _LABEL_BARS if _share(np.array(rows) < bar) <= FALSELY_LABELLED]
    return float(max(fits, default=_LABEL_BARS[0]))


def relevance_bar(
    asked: Sequence[Asked], searched: Sequence[Judged], judge: Judge, share: float = ANSWERED_WRONGLY
) -> float:
    """Return the lowest bar that no more than a share of the questions without an answer reach.

    They are those that nothing answers, and others without the passages, or the sentence, that answer them.
    """
    every = outcomes(with_nothing(asked), judge, OperatingPoints(0, 0, 1, 0, 0))
    best = [
        max(one.relevance for one, known in zip(each.judgements, each.group.relevance, strict=True) if known == 0)
        for each in searched
    ]
    nothing = np.array([*(one.relevance for one in every), *best])
    return _lowest(lambda bar: _share(nothing >= bar) <= share)


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


def _binary_loss(logits: Logits, targets: NDArray[Any]) -> float:
    return float(np.mean(np.logaddexp(0, logits) - targets * logits))
