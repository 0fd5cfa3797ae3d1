"""Score MIRAGE's records. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from scripts.evals.choice_reading import Reading, mirage_letter, read_choice
from scripts.evals.harness.intervals import macro_interval, wilson
from scripts.evals.harness.records import Record
from scripts.evals.mirage.data import SETS


def reading(record: Record) -> Reading:
    """Of the answer that the server marks; of the reply's text where it marks none."""
    # A marked answer that says "none of these" is not overruled by its explanation.
    return read_choice(record.reply.marked_answer or record.reply.text, record.question.options)


def strict(record: Record) -> float:
    """1 where the reply says the key's letter or choice, and no other."""
    return float(reading(record).letter == record.question.key)


def lenient(record: Record) -> float:
    """As MIRAGE scores. Handed to it is the letter of an answer that the server marks, else the text as it came."""
    reply = record.reply
    is_marked = reply.marked_answer is not None and reply.marked_answer.strip() != reply.text.strip()
    marked = reading(record).letter if is_marked else None
    return float((marked or mirage_letter(reply.text)) == record.question.key)


@dataclass(slots=True)
class SetScore:
    """Counts of one set. ``replies``: without failed requests, which are in no share."""

    name: str
    replies: int = 0
    right: int = 0
    lenient: int = 0
    unanswered: int = 0
    failed: int = 0
    seconds: list[float] = field(default_factory=list)
    keys: Counter[str] = field(default_factory=Counter)

    def count(self, record: Record) -> None:
        if record.failed:
            self.failed += 1
            return
        self.replies += 1
        self.right += int(strict(record))
        self.lenient += int(lenient(record))
        self.unanswered += reading(record).letter is None
        self.seconds.append(record.reply.seconds)
        self.keys[record.question.key] += 1

    @property
    def constant(self) -> tuple[str, int]:
        """The letter that is most often right, and how often. Of equals the first."""
        return min(self.keys.items(), key=lambda pair: (-pair[1], pair[0])) if self.keys else ("-", 0)

    @property
    def median_s(self) -> float:
        return sorted(self.seconds)[len(self.seconds) // 2] if self.seconds else 0.0

    def row(self) -> dict[str, Any]:
        interval, letter = wilson(self.right, self.replies), self.constant
        total = max(1, self.replies)
        return {
            "set": self.name,
            "replies": self.replies,
            "failed": self.failed,
            "unanswered": self.unanswered,
            "strict": self.right / total,
            "strict_95": [interval.low, interval.high],
            "lenient": self.lenient / total,
            **({"always": letter[0]} if self.replies else {}),
            "always_score": letter[1] / total,
            "median_seconds": self.median_s,
        }


def summarise(records: Iterable[Record]) -> dict[str, Any]:
    """``sets``; ``macro``: the unweighted mean over sets, MIRAGE's official score; ``micro``: over all questions."""
    by_set: dict[str, SetScore] = {}
    for record in records:
        by_set.setdefault(record.question.group, SetScore(record.question.group)).count(record)
    # Records come in the order in which the replies came.
    scores = sorted(
        by_set.values(), key=lambda score: (SETS.index(score.name) if score.name in SETS else 99, score.name)
    )
    return {"sets": [score.row() for score in scores], "macro": _macro(scores), "micro": _micro(scores)}


def _macro(scores: list[SetScore]) -> dict[str, Any]:
    known = [score for score in scores if score.replies]
    interval = macro_interval([(score.right, score.replies) for score in known])
    means = _means(known)
    return {"set": "macro mean", **_totals(scores), **means, "strict_95": [interval.low, interval.high]}


def _means(known: list[SetScore]) -> dict[str, float]:
    names = ("strict", "lenient", "always_score")
    return {name: sum(score.row()[name] for score in known) / max(1, len(known)) for name in names}


def _micro(scores: list[SetScore]) -> dict[str, Any]:
    right, replies = sum(s.right for s in scores), sum(s.replies for s in scores)
    interval, total = wilson(right, replies), max(1, replies)
    return {
        "set": "all questions",
        **_totals(scores),
        "strict": right / total,
        "lenient": sum(s.lenient for s in scores) / total,
        "always_score": sum(s.constant[1] for s in scores) / total,
        "strict_95": [interval.low, interval.high],
    }


def _totals(scores: list[SetScore]) -> dict[str, int]:
    totals: dict[str, int] = defaultdict(int)
    for score in scores:
        for name in ("replies", "failed", "unanswered"):
            totals[name] += getattr(score, name)
    return dict(totals)
