"""Compare two states of the evidence for one question: answers with what they rest on, or articles of reviews. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from difflib import ndiff
from typing import Any, Final

from server.methods.shared.evidence_table import EvidenceRow, Exclusion, Review, review_of

Record = Mapping[str, Any]
ASPECTS: Final = ("calls", "evidence", "answer", "outcome")
_MAX_LINES: Final = 2_000
_NAMED: Final = ("notices", "result")


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
    articles = review_difference(reviews[0], reviews[1]).record if reviews[0] and reviews[1] else None
    return {"equal": not found, "differs": {one.aspect: one.record for one in found}, "articles": articles}


@dataclass(frozen=True, slots=True)
class Change:
    """Hold what the later record of an article says in other words than the earlier one."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ReviewDifference:
    """Hold the articles that only one of two states of a review keeps as evidence, and what differs in those of both.

    ``gone`` has the exclusion by which the later state leaves an article out, None where it did not find it.
    """

    new: tuple[EvidenceRow, ...] = ()
    gone: tuple[tuple[EvidenceRow, Exclusion | None], ...] = ()
    both: tuple[tuple[EvidenceRow, tuple[Change, ...]], ...] = ()

    @property
    def record(self) -> dict[str, Any]:
        """Return it with the heads of articles and both texts of each change."""
        why = [(row, f"{out.stage}: {out.reason}" if out else "") for row, out in self.gone]
        return {
            "new": [_head(row) for row in self.new],
            "gone": [{**_head(row), "reason": reason} for row, reason in why],
            "changed": [{**_head(row), "changes": [*map(asdict, found)]} for row, found in self.both if found],
            "same": sum(not found for _, found in self.both),
        }

    @property
    def uids(self) -> dict[str, Any]:
        """Return it by uid, with the names alone of changes in notices (a retraction since) and results."""
        named = {row.uid: [one.what for one in found if one.what in _NAMED] for row, found in self.both}
        return {
            "new": [row.uid for row in self.new],
            "gone": [
                {"uid": row.uid, "title": row.title, "reason": out.reason if out else ""} for row, out in self.gone
            ],
            "changed": {uid: names for uid, names in named.items() if names},
        }


def review_difference(before: Review, after: Review) -> ReviewDifference:
    """Return in which articles the later of two states of a review differs."""
    first, second = ({row.uid: row for row in review.rows} for review in (before, after))
    out = {one.uid: one for one in after.excluded}
    return ReviewDifference(
        new=tuple(row for uid, row in second.items() if uid not in first),
        gone=tuple((row, out.get(uid)) for uid, row in first.items() if uid not in second),
        both=tuple((row, _changes(first[uid], row)) for uid, row in second.items() if uid in first),
    )


def _head(row: EvidenceRow) -> dict[str, str]:
    return {"uid": row.uid, "title": row.title, "url": row.url}


def _changes(before: EvidenceRow, after: EvidenceRow) -> tuple[Change, ...]:
    old, new = _said(before), _said(after)
    texts = [(what, old.get(what, ""), new.get(what, "")) for what in old | new]
    return tuple(Change(*one) for one in texts if one[1] != one[2])


def _said(row: EvidenceRow) -> dict[str, str]:
    cells = {name: cell.value or cell.quote for name, cell in row.findings.items()}
    return {"title": row.title, "notices": ", ".join(sorted(row.notices)), "level": row.level} | cells
