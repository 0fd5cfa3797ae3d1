"""Define what a verifier is given and what it returns, as calibrated probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Pair:
    """Hold a question or a claim, and a text of evidence: a sentence, or a few of them."""

    query: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """Hold what a piece of evidence is to a question or claim, each from 0 to 1.

    ``relevance`` is the probability that the evidence answers the question, or tells whether the claim holds.
    ``supports`` and ``contradicts`` are those of the claim, or of yes and no to a question of yes or no; what is left
    of one is the probability of neither.
    """

    relevance: float
    supports: float
    contradicts: float

    @property
    def neither(self) -> float:
        return max(0.0, 1.0 - self.supports - self.contradicts)


@dataclass(frozen=True, slots=True)
class OperatingPoints:
    """Hold the bar of each task, chosen on the development split for the error rate that the model's card states.

    ``quote`` is of relevance, for a sentence that is quoted; ``answer`` of relevance, for what counts as answered;
    ``verdict`` of supports or contradicts, for yes or no; ``label`` of supports, below which a sentence of an answer is
    labelled as not supported; ``screen`` of relevance, for an article that is kept; ``choice`` of a choice's share
    among the choices. ``answer_of_several`` is ``answer`` where several sources are searched at once, each of which
    may have what only looks like an answer.
    """

    quote: float
    answer: float
    verdict: float
    label: float
    screen: float
    choice: float = 0.6
    answer_of_several: float = 0.0


class Verifier(Protocol):
    """Judge pairs in one batch; blocks, so that callers stay off the event loop."""

    @property
    def name(self) -> str: ...

    @property
    def points(self) -> OperatingPoints: ...

    def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        """Return a judgement for each pair, in order.

        Raises:
            ModelError: the model failed.
        """
        ...
