"""What differs between two answers to one question, and between two reviews."""

from __future__ import annotations

from typing import Any

import pytest

from server.evidence.reviews.differences import answer_differences, review_difference, trace_differences
from server.methods.shared.evidence_table import EvidenceRow, Exclusion, Finding, Review

CALL = {"url": "https://ncbi.example/esearch?term=x", "status": "ok", "summary": "1 id", "seconds": 0.1}
RECORD: dict[str, Any] = {
    "calls": [CALL, CALL | {"url": "https://ncbi.example/esummary?id=1"}],
    "searches": [{"queries": ["x"], "sources": ["/v1/passages/a/1"]}],
    "references": [{"number": 1, "title": "Record", "url": "https://ncbi.example/1", "text": "PSMB10"}],
    "content": "It is PSMB10 [1].\nThat is sure.",
    "outcome": "answered",
    "finish_reason": "stop",
}


def test_times_and_the_order_of_calls_are_no_difference() -> None:
    slower = [one | {"seconds": 9.0} for one in reversed(RECORD["calls"])]
    assert answer_differences(RECORD, RECORD | {"calls": slower}) == []


@pytest.mark.parametrize(
    ("aspect", "field", "value", "gone", "new"),
    [
        ("calls", "calls", [CALL], ("https://ncbi.example/esummary?id=1: ok, 1 id",), ()),
        ("evidence", "references", [], ("[1] Record https://ncbi.example/1 PSMB10",), ()),
        ("evidence", "searches", [{"queries": ["x"], "sources": []}], ("x: /v1/passages/a/1",), ("x: ",)),
        ("answer", "content", "It is PSMB9.\nThat is sure.", ("It is PSMB10 [1].",), ("It is PSMB9.",)),
        ("outcome", "outcome", "partial", ("outcome: answered",), ("outcome: partial",)),
        ("outcome", "error", "ncbi_timeout", (), ("error: ncbi_timeout",)),
    ],
)
def test_each_aspect_is_told_line_by_line(
    aspect: str, field: str, value: Any, gone: tuple[str, ...], new: tuple[str, ...]
) -> None:
    (found,) = answer_differences(RECORD, RECORD | {field: value})
    assert (found.aspect, found.gone, found.new) == (aspect, gone, new)


def row(uid: str, **fields: Any) -> EvidenceRow:
    return EvidenceRow(number=1, uid=uid, title=f"Article {uid}", url=f"https://pubmed.example/{uid}", **fields)


def test_articles_are_new_gone_changed_or_the_same() -> None:
    """One that is gone has the later review's reason; a changed one tells what was said before and after."""
    before = Review(rows=(row("1"), row("2"), row("3"), row("4", result=Finding("halved"))))
    after = Review(
        rows=(row("1"), row("4", result=Finding("no effect"), notices=("expression of concern",)), row("5")),
        excluded=(Exclusion("2", "Article 2", "retracted", "retracted since"),),
    )
    difference = review_difference(before, after)
    found = difference.record
    assert [one["uid"] for one in found["new"]] == ["5"]
    assert [(one["uid"], one["reason"]) for one in found["gone"]] == [("2", "retracted: retracted since"), ("3", "")]
    (changed,) = found["changed"]
    assert changed["uid"] == "4"
    assert changed["changes"] == [
        {"what": "notices", "before": "", "after": "expression of concern"},
        {"what": "result", "before": "halved", "after": "no effect"},
    ]
    assert found["same"] == 1
    assert difference.uids == {
        "new": ["5"],
        "gone": [
            {"uid": "2", "title": "Article 2", "reason": "retracted since"},
            {"uid": "3", "title": "Article 3", "reason": ""},
        ],
        "changed": {"4": ["notices", "result"]},
    }


def test_the_order_of_articles_and_of_notices_is_no_difference() -> None:
    before = Review(rows=(row("1", notices=("retracted", "corrected")), row("2", level="trial")))
    after = Review(rows=(row("2", level="review"), row("1", notices=("corrected", "retracted"))))
    found = review_difference(before, after)
    assert found.uids == {"new": [], "gone": [], "changed": {}}
    assert [one["changes"] for one in found.record["changed"]] == [
        [{"what": "level", "before": "trial", "after": "review"}]
    ]


def test_two_traces_of_reviews_are_compared_by_their_articles() -> None:
    traces = [
        {"choices": [RECORD | {"details": Review(rows=rows).details}]} for rows in ((row("1"),), (row("1"), row("2")))
    ]
    found = trace_differences(*traces)
    assert found["equal"]
    assert [one["uid"] for one in found["articles"]["new"]] == ["2"]
    assert trace_differences({"choices": [RECORD]}, {"choices": [RECORD]})["articles"] is None
