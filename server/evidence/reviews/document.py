"""Define a literature review as a document: question, protocol, columns, exclusions by hand, and its runs. Pure.

What its readers change (``ReviewDocument``) and what its runs find (``ReviewResult``) are kept apart, so that who edits
the one loses nothing of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from server.evidence.reviews.differences import ReviewDifference, review_difference
from server.methods.shared.evidence_table import REVIEW, TABLE, EvidenceRow, Exclusion, Finding, Review, review_of

# What a cell of an export says where the article states nothing.
NOT_STATED: Final = "not stated"
BY_HAND: Final = "excluded_by_hand"
# Runs of which a document keeps the counts and the differences.
_KEPT_RUNS: Final = 20
Cells = Mapping[str, Mapping[str, Mapping[str, str]]]


@dataclass(frozen=True, slots=True)
class Column:
    """Hold a further column of the table: its heading, and what it asks of each article."""

    name: str
    question: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewDocument:
    """Hold what the readers of a review decide.

    ``options`` are those of the method, the protocol of the search. ``excluded`` are the articles that were
    excluded by hand. Times are Unix time.
    """

    id: str
    question: str
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    excluded: tuple[Exclusion, ...] = ()
    created: int = 0
    updated: int = 0

    @property
    def search_options(self) -> dict[str, Any]:
        """Return the options of a run, which leaves out what was excluded by hand."""
        by_hand = [one.uid for one in self.excluded if one.uid.isascii() and one.uid.isdigit()]
        pmids = list(dict.fromkeys([*map(str, self.options.get("exclude_pmids") or ()), *by_hand]))
        return {**self.options, **({"exclude_pmids": pmids} if pmids else {})}

    @property
    def reasons(self) -> dict[str, str]:
        """Return why articles were excluded by hand, by uid."""
        return {one.uid: one.reason for one in self.excluded}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRun:
    """Hold what is kept of each run: when, of which question, under which protocol, and what it has differently."""

    id: str
    created: int
    seconds: float
    question: str
    options: Mapping[str, Any]
    outcome: str
    counts: Mapping[str, int]
    changes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Hold what one run has found: the record of the answer, as traces have it, and the texts it read, by uid."""

    model: str
    record: Mapping[str, Any]
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewResult:
    """Hold what the runs have found: the runs, the latest last, and of that its record and its articles.

    ``record`` is the record of the answer, as traces have it. ``texts`` are the texts that were read, by uid; ``cells``
    those of further columns by what the column asks and by uid. A cell with an empty value: the article states nothing.
    """

    runs: tuple[ReviewRun, ...] = ()
    model: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    cells: Cells = field(default_factory=dict)

    @property
    def review(self) -> Review:
        return review_of(self.record.get("details") or {}) or Review()

    def with_run(self, run: ReviewRun, found: RunRecord, by_hand: Sequence[Exclusion]) -> ReviewResult:
        """Return the result after one more run without ``by_hand``; cells of articles with the same text stay."""
        review, texts = review_of(found.record.get("details") or {}) or Review(), found.texts
        after = replace(review, excluded=(*review.excluded, *by_hand))
        changes = review_difference(self.review, after) if self.runs else ReviewDifference()
        same = {uid for uid, text in texts.items() if self.texts.get(uid) == text}
        return ReviewResult(
            runs=(*self.runs, replace(run, changes=changes.uids))[-_KEPT_RUNS:],
            model=found.model,
            record=found.record,
            texts=texts,
            cells={asked: {uid: cell for uid, cell in by.items() if uid in same} for asked, by in self.cells.items()},
        )

    def with_cells(self, asked: str, found: Mapping[str, Finding]) -> ReviewResult:
        """Return the result with cells of one column, by uid."""
        cells = {**self.cells.get(asked, {}), **{uid: asdict(cell) for uid, cell in found.items()}}
        return replace(self, cells={**self.cells, asked: cells})

    def missing(self, document: ReviewDocument) -> list[tuple[Column, EvidenceRow]]:
        """Return the cells that nobody has looked for yet, row by row."""
        return [
            (column, row)
            for row in self.review.rows
            for column in document.columns
            if row.uid in self.texts and row.uid not in self.cells.get(column.question, {})
        ]


def flow_of(document: ReviewDocument, result: ReviewResult) -> dict[str, int]:
    """Return the counts of the latest run with what was excluded by hand since, in the order of a PRISMA flow."""
    review = result.review
    since = sum(row.uid in document.reasons for row in review.rows)
    counts = dict(review.counts)
    if not since and BY_HAND not in counts:
        return counts
    by_hand = counts.pop(BY_HAND, 0) + since
    included, cited = counts.pop("included", 0) - since, counts.pop("cited", 0)
    return counts | {BY_HAND: by_hand, "included": included, "cited": cited}


def is_stale(document: ReviewDocument, result: ReviewResult) -> bool:
    """Return whether the latest run had another question or protocol, or cites what is excluded by now."""
    if not result.runs:
        return False
    last = result.runs[-1]
    uses = any(row.number and row.uid in document.reasons for row in result.review.rows)
    return uses or last.question != document.question or dict(last.options) != dict(document.options)


def shown_record(document: ReviewDocument, result: ReviewResult, unstated: str = "") -> dict[str, Any]:
    """Return the record of the latest run with the document's columns and exclusions in it.

    ``unstated`` is the value of a cell whose article states nothing; a cell nobody has looked for yet is left out.
    """
    details = dict(result.record.get("details") or {})
    review = result.review
    rows = [_row(row, document, result.cells, unstated) for row in review.rows]
    excluded = (*document.excluded, *review.excluded)
    told = replace(review, rows=tuple(rows), counts=flow_of(document, result), excluded=excluded)
    return {**result.record, "details": {**details, **{name: told.details[name] for name in (TABLE, REVIEW)}}}


def _row(row: EvidenceRow, document: ReviewDocument, cells: Cells, unstated: str) -> EvidenceRow:
    found = {column.name: cells.get(column.question, {}).get(row.uid) for column in document.columns}
    columns = {
        name: Finding(cell["value"] or unstated, cell["quote"], cell.get("section", ""))
        for name, cell in found.items()
        if cell is not None
    }
    return replace(row, columns=columns, excluded=document.reasons.get(row.uid, ""))


def described(document: ReviewDocument, result: ReviewResult) -> dict[str, Any]:
    """Return the document as its readers see it; the newest run first."""
    return {
        "id": document.id,
        "object": "review",
        "question": document.question,
        "model": document.model,
        "options": dict(document.options),
        "columns": [asdict(column) for column in document.columns],
        "excluded": [asdict(one) for one in document.excluded],
        "created": document.created,
        "updated": document.updated,
        "flow": flow_of(document, result),
        "stale": is_stale(document, result),
        "missing_cells": len(result.missing(document)),
        "runs": [asdict(run) for run in reversed(result.runs)],
        "record": shown_record(document, result) if result.runs else None,
    }


def document_of(body: Mapping[str, Any]) -> ReviewDocument:
    """Return the document of its stored body."""
    columns = tuple(Column(**one) for one in body["columns"])
    excluded = tuple(Exclusion(**one) for one in body["excluded"])
    return ReviewDocument(**{**body, "columns": columns, "excluded": excluded})


def result_of(body: Mapping[str, Any]) -> ReviewResult:
    runs: Sequence[Mapping[str, Any]] = body["runs"]
    return ReviewResult(**{**body, "runs": tuple(ReviewRun(**run) for run in runs)})
