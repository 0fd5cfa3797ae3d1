"""Say yes or no from what a model that was trained to and the verifier read in one sentence, as one probability."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

# Shares nearer to 0 and 1 than this are as sure as it.
_LEAST: Final = 1e-3
_NUM_WEIGHTS: Final = 5
FORM: Final = (
    '{"yes": [5 numbers], "no": [5 numbers], "given": number, "sure": number} with 0 < given ≤ sure < 1, or null'
)


@dataclass(frozen=True, slots=True)
class VerdictCalibration:
    """Hold the weights of a multinomial logistic regression, and the probabilities that a word needs.

    ``yes`` and ``no`` have a weight each for the four ``features`` and a number to add; unclear has the logit 0. From
    ``given`` on, yes or no is said; from ``sure`` on, as probable.
    """

    yes: tuple[float, ...]
    no: tuple[float, ...]
    given: float
    sure: float

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return the calibration that a card states.

        Raises:
            ValueError: the value has not the form ``FORM``.
        """
        try:
            yes, no = (tuple(float(one) for one in value[word]) for word in ("yes", "no"))
            given, sure = (float(value[name]) for name in ("given", "sure"))
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError(FORM) from error
        is_whole = len(yes) == len(no) == _NUM_WEIGHTS and all(math.isfinite(one) for one in (*yes, *no))
        if not is_whole or not 0 < given <= sure < 1:
            raise ValueError(FORM)
        return cls(yes, no, given, sure)

    def to_json(self) -> Mapping[str, Any]:
        return {"yes": list(self.yes), "no": list(self.no), "given": self.given, "sure": self.sure}

    def probabilities(self, values: Sequence[float]) -> tuple[float, float]:
        """Return those of yes and of no for ``features``."""
        weights = [
            math.exp(sum(weight * value for weight, value in zip(row, (*values, 1.0), strict=True)))
            for row in (self.yes, self.no)
        ]
        whole = 1.0 + sum(weights)
        return weights[0] / whole, weights[1] / whole


def features(
    shares: Sequence[float], *, supports: float, contradicts: float, relevance: float
) -> tuple[float, float, float, float]:
    """Return the logits that are weighed.

    They are the model's of yes against no and of unclear, whose ``shares`` are of yes, no and unclear, and the
    verifier's of supports against contradicts and of relevance.
    """
    yes, no, unclear = shares
    return (_logit(_share(yes, no)), _logit(unclear), _logit(_share(supports, contradicts)), _logit(relevance))


def _share(one: float, other: float) -> float:
    return one / (one + other) if one + other > 0 else 0.5


def _logit(share: float) -> float:
    bounded = min(max(share, _LEAST), 1 - _LEAST)
    return math.log(bounded / (1 - bounded))
