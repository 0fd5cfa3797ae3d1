"""Compare two records of one question: the answers with what they rest on, or the articles of two reviews. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import ndiff
from typing import Any, Final

from server.methods.shared.evidence_table import EvidenceRow, Review, review_of

Record = Mapping[str, Any]
ASPECTS: Final = ("calls", "evidence", "answer", "outcome")
_MAX_LINES: Final = 2_000


@dataclass(frozen=True, slots=True)
class Difference:
    """Hold one aspect of two answers, line by line: what only the first has, and what only the second has."""

    aspect: str
    gone: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def record(self) -> dict[str, list[str]]:
        return {"gone": list(self.gone), "new": list(self.new)}


def answer_differences(before: Record, after: Record) -> list[Difference]:
    """Return in which aspects two choices of traces differ: calls, evidence, text and outcome.

    Times, token counts, the order of calls and whether a reply came from a cache are no difference.
    """
    found = []
    for aspect, lines in zip(ASPECTS, (_calls, _evidence, _text, _outcome), strict=True):
        first, second = lines(before)[:_MAX_LINES], lines(after)[:_MAX_LINES]
        if first != second:
            marked = list(ndiff(first, second))
            gone = tuple(line[2:] for line in marked if line.startswith("- "))
            found.append(Difference(aspect, gone, tuple(line[2:] for line in marked if line.startswith("+ "))))
    return found


def _calls(record: Record) -> list[str]:
    return sorted(f"{one.get('url')}: {one.get('status')}, {one.get('summary')}" for one in record.get("calls") or ())


def _evidence(record: Record) -> list[str]:
    cited = [
        " ".join(f"[{one.get('number')}] {one.get('title')} {one.get('url')} {one.get('text')}".split())
        for one in record.get("references") or ()
    ]
    searched = [
        f"{'; '.join(one.get('queries') or ())}: {', '.join(one.get('sources') or ())}"
        for one in record.get("searches") or ()
    ]
    return [*sorted(searched), *cited]


def _text(record: Record) -> list[str]:
    return str(record.get("content") or record.get("answer") or "").splitlines()


def _outcome(record: Record) -> list[str]:
    names = ("outcome", "finish_reason", "error")
    return [f"{name}: {record[name]}" for name in names if record.get(name) is not None]


def trace_differences(before: Record, after: Record) -> dict[str, Any]:
    """Return in what the first choices of two traces differ, and where both are reviews, in which articles.

    Raises:
        LookupError: a trace has no answer.
    """
    first, second = before["choices"][0], after["choices"][0]
    found = answer_differences(first, second)
    reviews = [review_of(one.get("details") or {}) for one in (first, second)]
    articles = review_differences(reviews[0], reviews[1]) if reviews[0] and reviews[1] else None
    return {"equal": not found, "differs": {one.aspect: one.record for one in found}, "articles": articles}


def review_differences(before: Review, after: Review) -> dict[str, Any]:
    """Return the articles that only one of two reviews keeps as evidence, and what differs in those of both.

    An article that is gone has the reason that the later review gives for leaving it out, "" where it did not find it.
    """
    first, second = ({row.uid: row for row in review.rows} for review in (before, after))
    why = {one.uid: f"{one.stage}: {one.reason}" for one in after.excluded}
    changes = [(uid, _changes(first[uid], second[uid])) for uid in first if uid in second]
    return {
        "new": [_head(row) for uid, row in second.items() if uid not in first],
        "gone": [{**_head(row), "reason": why.get(uid, "")} for uid, row in first.items() if uid not in second],
        "changed": [{**_head(second[uid]), "changes": changed} for uid, changed in changes if changed],
        "same": sum(not changed for _, changed in changes),
    }


def _head(row: EvidenceRow) -> dict[str, str]:
    return {"uid": row.uid, "title": row.title, "url": row.url}


def _changes(before: EvidenceRow, after: EvidenceRow) -> list[dict[str, str]]:
    """Return what the later record of an article says in other words than the earlier one."""
    return [
        {"what": what, "before": old, "after": new}
        for (what, old), (_, new) in zip(_said(before), _said(after), strict=True)
        if old != new
    ]


def _said(row: EvidenceRow) -> Sequence[tuple[str, str]]:
    cells = [(name, cell.value or cell.quote) for name, cell in row.findings.items()]
    return [("title", row.title), ("notices", ", ".join(row.notices)), ("level", row.level), *cells]
