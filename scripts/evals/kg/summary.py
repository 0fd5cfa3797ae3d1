"""Summarise scored replies to KG-RAG's questions, set by set. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from scripts.evals.harness.intervals import bootstrap_mean, wilson
from scripts.evals.harness.records import Record
from scripts.evals.kg.data import SETS
from scripts.evals.kg.scoring import Status, outcome


@dataclass(slots=True)
class SetSummary:
    """One row of the table. Failed requests are in no share; an abstention is an answer that scores nothing."""

    name: str
    failed: int = 0
    statuses: Counter[Status] = field(default_factory=Counter)
    scores: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    items: dict[str, tuple[int, int]] = field(default_factory=dict)
    by_row: dict[int, float] = field(default_factory=dict)
    # The same rows in another wording, where there is one.
    other: SetSummary | None = None

    def count(self, record: Record) -> None:
        if record.failed:
            self.failed += 1
            return
        found = outcome(record)
        self.statuses[found.status] += 1
        self.scores.append(found.score)
        self.seconds.append(record.reply.seconds)
        self.by_row[record.question.meta["row"]] = found.score
        for name, value in found.parts.items():
            self.parts[name].append(value)
        for kind, (right, asked) in found.counts.items():
            before = self.items.get(kind, (0, 0))
            self.items[kind] = (before[0] + right, before[1] + asked)

    @property
    def replies(self) -> int:
        return len(self.scores)

    def row(self) -> dict[str, Any]:
        total, abstained = max(1, self.replies), self.statuses["abstained"]
        answered = self.replies - abstained
        binary = all(score in (0.0, 1.0) for score in self.scores)
        interval = wilson(sum(self.scores), self.replies) if binary else bootstrap_mean(self.scores)
        return {
            "set": self.name,
            "replies": self.replies,
            "failed": self.failed,
            "score": sum(self.scores) / total,
            "score_95": [interval.low, interval.high],
            "answered": answered / total,
            "score_of_answered": sum(self.scores) / max(1, answered),
            "abstained": abstained,
            "unreadable": self.statuses["unreadable"],
            "median_seconds": sorted(self.seconds)[len(self.seconds) // 2] if self.seconds else 0.0,
            "parts": {name: sum(values) / len(values) for name, values in self.parts.items()},
            "items": {kind: list(counts) for kind, counts in self.items.items()},
        }

    def further(self) -> Iterator[str]:
        """Lines below the table."""
        if self.parts:
            yield ", ".join(f"{name} {sum(values) / len(values):.3f}" for name, values in self.parts.items())
        for kind, (right, asked) in self.items.items():
            yield f"{kind} found {right}/{asked} = {right / max(1, asked):.3f}"
        if self.other is not None:
            both = self.by_row.keys() & self.other.by_row.keys()
            same = sum(self.by_row[row] == self.other.by_row[row] for row in both)
            yield f"{same} of {len(both)} questions score the same as in their original wording"


def summarise(records: Iterable[Record]) -> list[SetSummary]:
    """Sets in their own order, an original wording before the perturbed one."""
    found: dict[str, SetSummary] = {}
    for record in records:
        found.setdefault(record.question.group, SetSummary(record.question.group)).count(record)
    for name, one in found.items():
        stem, _, version = name.partition(", ")
        if version == "perturbed":
            one.other = found.get(f"{stem}, original")
    order = {name: place for place, name in enumerate(SETS)}
    return sorted(found.values(), key=lambda one: (order.get(one.name.partition(", ")[0], len(order)), one.name))
