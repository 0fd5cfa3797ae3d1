"""Score a verifier on the groups of the development halves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from models.verifiers.base import Judgement, Pair
from scripts.verifier.dev_sets import Group
from scripts.verifier.samples import CONTRADICTS, NEITHER, SUPPORTS, UNTOLD

_SIDES: Final = (SUPPORTS, CONTRADICTS)


class Judge(Protocol):
    def judge(self, pairs: Sequence[Pair]) -> list[Judgement]: ...


@dataclass(frozen=True, slots=True)
class Judged:
    """Hold a group with its judgements, in order."""

    group: Group
    judgements: tuple[Judgement, ...]

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """Return supports, contradicts and neither of each pair, [n, 3]."""
        return np.array([(one.supports, one.contradicts, one.neither) for one in self.judgements])

    @property
    def best(self) -> int:
        return max(range(len(self.judgements)), key=lambda place: self.judgements[place].relevance)


def judged(judge: Judge, groups: Sequence[Group]) -> list[Judged]:
    """Return all groups with their judgements, from one batch."""
    found = judge.judge([pair for group in groups for pair in group.pairs])
    ends = np.cumsum([0, *(len(group.pairs) for group in groups)])
    return [
        Judged(group, tuple(found[start:end])) for group, start, end in zip(groups, ends[:-1], ends[1:], strict=True)
    ]


def claims_right(groups: Sequence[Judged]) -> float:
    """Return how often the claim that is most supported is the right one of its trial."""
    return _mean([one.group.verdicts[int(one.probabilities[:, 0].argmax())] == SUPPORTS for one in groups])


def verdicts_right(groups: Sequence[Judged], *, of: Sequence[int] = (*_SIDES, NEITHER)) -> float:
    """Return how often the likeliest verdict is right, of pairs that have one of these."""
    return _mean(
        [
            int(row.argmax()) == verdict
            for one in groups
            for row, verdict in zip(one.probabilities, one.group.verdicts, strict=True)
            if verdict in of
        ]
    )


def sides_right(groups: Sequence[Judged]) -> float:
    """Return how often yes or no is right where it is one of them, the probability of neither left aside."""
    return _mean(
        [
            int(row[:2].argmax()) == verdict
            for one in groups
            for row, verdict in zip(one.probabilities, one.group.verdicts, strict=True)
            if verdict in _SIDES
        ]
    )


def best_right(groups: Sequence[Judged]) -> float:
    """Return how often the most relevant pair of a group is a relevant one."""
    return _mean([one.group.relevance[one.best] == 1 for one in groups])


def given(groups: Sequence[Judged], bar: float) -> tuple[float, float, float, float]:
    """Return the share of yes and no that reach the bar, how many are right, and of the true yes and the true no."""
    rows = [
        (row, verdict)
        for one in groups
        for row, verdict in zip(one.probabilities, one.group.verdicts, strict=True)
        if verdict in _SIDES
    ]
    reached = [(int(row[:2].argmax()), verdict) for row, verdict in rows if row[:2].max() >= bar]
    right = [said == verdict for said, verdict in reached]
    of_side = [_mean([said == verdict for said, verdict in reached if verdict == side]) for side in _SIDES]
    return len(reached) / max(1, len(rows)), _mean(right), of_side[0], of_side[1]


def left_open(groups: Sequence[Judged], bar: float) -> float:
    """Return how often neither yes nor no reaches the bar where the text does not tell."""
    return _mean(
        [
            row[:2].max() < bar
            for one in groups
            for row, verdict in zip(one.probabilities, one.group.verdicts, strict=True)
            if verdict == NEITHER
        ]
    )


def told(groups: Sequence[Judged]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the relevance of all pairs whose relevance is known, and what it is."""
    pairs = [
        (judgement.relevance, known)
        for one in groups
        for judgement, known in zip(one.judgements, one.group.relevance, strict=True)
        if known != UNTOLD
    ]
    return np.array([one for one, _ in pairs]), np.array([known for _, known in pairs])


def _mean(values: Sequence[bool]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
