"""Decide typed questions by evidence: yes or no, a choice, a level; each with the sentence that decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from server.methods.shared.reading.evidence import EvidenceText
from server.methods.shared.reading.gate import Gate, JudgedSentence

Verdict = Literal["yes", "no", "unclear", "chosen"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Hold the probability of each answer, those of yes and no in this order, and the sentence that decides.

    ``verdict`` is ``unclear`` below the verifier's bars. ``relevance``: that the sentence answers. ``sentence`` None:
    there is nothing to read.
    """

    probabilities: tuple[float, ...]
    verdict: Verdict = "unclear"
    sentence: JudgedSentence | None = None
    relevance: float = 0.0

    @property
    def place(self) -> int:
        return self.probabilities.index(max(self.probabilities))

    @property
    def confidence(self) -> float:
        """Return how likely the best answer is, if anything answers."""
        return max(self.probabilities) * self.relevance


async def decide(gate: Gate, question: str, choices: Sequence[str], texts: Sequence[EvidenceText]) -> Decision:
    """Return the decision on one question; ``choices`` () asks for yes or no. What is undecided counts half for each.

    Raises:
        ModelError: the verifier failed.
    """
    reading = await gate.read(question, texts)
    if choices:
        support = await gate.choose(question, choices, reading)
        if support is None:
            return Decision((1 / len(choices),) * len(choices))
        points = reading.points
        is_clear = support.relevance >= points.answer and support.probability >= points.choice
        return Decision(support.shares, "chosen" if is_clear else "unclear", support.sentence, support.relevance)
    one = reading.surest or next(iter(reading.ranked), None)
    if one is None:
        return Decision((0.5, 0.5))
    half = one.judgement.neither / 2
    yes, no = (one.judgement.supports + half, one.judgement.contradicts + half) if reading.surest else (0.5, 0.5)
    verdict: Verdict = "unclear" if not reading.verdict else "yes" if reading.verdict == "Yes" else "no"
    return Decision((yes, no), verdict, one, one.relevance)
