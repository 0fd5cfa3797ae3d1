"""Number the passages that sub-answers cite, consistently over the whole run. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrieval.corpus.ranking import Found
from server.methods.medrag_citations import numbers_in, renumbered
from server.methods.medrag_context import Context


@dataclass(slots=True)
class Library:
    """Map passages to numbers from 1, assigned in the order of first citation."""

    by_number: dict[int, Found] = field(default_factory=dict)
    unknown: int = 0
    _numbers: dict[int, int] = field(default_factory=dict)

    def taken_over(self, answer: str, context: Context) -> tuple[str, tuple[int, ...]]:
        """Return a sub-answer with the run's numbers in place of those of its context, and these numbers."""
        new: dict[int, int] = {}
        for number in numbers_in(answer):
            if 1 <= number <= len(context.passages):
                new[number] = self.number_of(context.passages[number - 1])
            else:
                self.unknown += 1
        return renumbered(answer, new), tuple(dict.fromkeys(new.values()))

    def number_of(self, found: Found) -> int:
        number = self._numbers.setdefault(found.passage.passage_id, len(self._numbers) + 1)
        self.by_number.setdefault(number, found)
        return number
