"""Count answers to closed questions: right, wrong, abstained, and outside of the permitted answers. Pure.

An abstention is not a wrong answer: for a method that says "unknown" where it has no evidence, report how often it
answers and how often it is then right, rather than accuracy over all questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Outcome = Literal["right", "wrong", "abstained", "outside"]


def outcome(gold: str, reply: Mapping[str, Any]) -> Outcome:
    """``reply``: the ``arrowhead`` object of a message. An abstention is right where ``gold`` is one."""
    answer = str(reply.get("answer", "")).strip()
    if answer.casefold() == gold.strip().casefold():
        return "right"
    if reply.get("abstained", False):
        return "abstained"
    return "wrong" if reply.get("answer_in_list", True) else "outside"


@dataclass(slots=True)
class Tally:
    counts: Counter[Outcome] = field(default_factory=Counter)

    def add(self, gold: str, reply: Mapping[str, Any]) -> None:
        self.counts[outcome(gold, reply)] += 1

    @property
    def questions(self) -> int:
        return self.counts.total()

    @property
    def accuracy(self) -> float:
        """Of all questions; 0.0 of none."""
        return self.counts["right"] / max(1, self.questions)

    @property
    def answered(self) -> float:
        """Share of the questions that were not abstained from."""
        return 1.0 - self.counts["abstained"] / max(1, self.questions)

    @property
    def accuracy_answered(self) -> float:
        """Of those that were answered, whatever was answered."""
        return self.counts["right"] / max(1, self.questions - self.counts["abstained"])
