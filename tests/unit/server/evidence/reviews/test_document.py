"""A review as a document: what its runs find, and what its readers decide of it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from server.evidence.reviews.document import (
    Column,
    ReviewDocument,
    ReviewResult,
    ReviewRun,
    RunRecord,
    described,
    document_of,
    flow_of,
    is_stale,
    result_of,
    shown_record,
)
from server.methods.shared.evidence_table import EvidenceRow, Exclusion, Finding, Review

DOSE = Column("dose", "Which dose was given?")
BY_HAND = Exclusion("1", "Title 1", "by hand", "animals")
DOCUMENT = ReviewDocument(id="review_1", question="Does it help?", model="m:clinfo", columns=(DOSE,))
RUN = ReviewRun(
    id="run", created=1, seconds=2.0, question="Does it help?", options={}, outcome="answered", counts={}, changes={}
)
COUNTS = {"found": 5, "duplicates": 1, "screened": 4, "excluded": 2, "included": 2, "cited": 1}


def record(*uids: str) -> dict[str, Any]:
    rows = tuple(EvidenceRow(number=n == 0, uid=uid, title=f"Title {uid}", url="") for n, uid in enumerate(uids))
    return {"content": "It helps [1].", "details": {"method": "clinfo", **Review(counts=COUNTS, rows=rows).details}}


def result(*uids: str, text: str = "It was 5 mg.") -> ReviewResult:
    return ReviewResult().with_run(RUN, RunRecord("m:clinfo", record(*uids), dict.fromkeys(uids, text)), ())


def test_document_and_result_are_the_same_after_storage() -> None:
    document = replace(DOCUMENT, excluded=(BY_HAND,), options={"max_articles": 5})
    found = result("1", "2").with_cells(DOSE.question, {"1": Finding("5 mg", "It was 5 mg.")})
    assert document_of(json.loads(json.dumps(asdict(document)))) == document
    stored = result_of(json.loads(json.dumps(asdict(found))))
    assert described(document, stored) == described(document, found)


def test_an_excluded_article_leaves_the_counts_and_is_listed_with_its_reason() -> None:
    document, found = replace(DOCUMENT, excluded=(BY_HAND,)), result("1", "2")
    flow = flow_of(document, found)
    assert (flow["included"], flow["excluded_by_hand"]) == (1, 1)
    assert list(flow)[-3:] == ["excluded_by_hand", "included", "cited"]
    details = shown_record(document, found)["details"]
    assert [row["excluded"] for row in details["evidence_table"]] == ["animals", ""]
    assert details["review"]["excluded"][0]["reason"] == "animals"
    assert flow_of(DOCUMENT, found) == COUNTS


def test_a_run_leaves_out_what_is_excluded_by_hand_and_keeps_the_protocol() -> None:
    document = replace(DOCUMENT, options={"exclude_pmids": ["7"]}, excluded=(BY_HAND, Exclusion("/v1/x", "", "", "y")))
    assert document.search_options == {"exclude_pmids": ["7", "1"]}
    assert DOCUMENT.search_options == {}


def test_the_answer_is_stale_where_question_protocol_or_a_cited_article_changed() -> None:
    found = result("1", "2")
    assert not is_stale(DOCUMENT, ReviewResult()) and not is_stale(DOCUMENT, found)
    assert is_stale(replace(DOCUMENT, question="Another?"), found)
    assert is_stale(replace(DOCUMENT, options={"max_articles": 9}), found)
    assert is_stale(replace(DOCUMENT, excluded=(BY_HAND,)), found)
    assert not is_stale(replace(DOCUMENT, excluded=(replace(BY_HAND, uid="2"),)), found)


def test_a_cell_is_missing_until_somebody_looked_and_says_where_nothing_is_stated() -> None:
    found = result("1", "2")
    assert [row.uid for _, row in found.missing(DOCUMENT)] == ["1", "2"]
    found = found.with_cells(DOSE.question, {"1": Finding("5 mg", "It was 5 mg."), "2": Finding()})
    assert found.missing(DOCUMENT) == []
    rows = shown_record(DOCUMENT, found, "not stated")["details"]["evidence_table"]
    assert [row["columns"]["dose"]["value"] for row in rows] == ["5 mg", "not stated"]
    assert shown_record(DOCUMENT, found)["details"]["evidence_table"][1]["columns"]["dose"]["value"] == ""


def test_a_later_run_keeps_cells_of_the_same_text_and_tells_what_is_new() -> None:
    found = result("1", "2").with_cells(DOSE.question, {"1": Finding("5 mg", "q"), "2": Finding()})
    later = RunRecord("m:clinfo", record("1", "3"), {"1": "It was 5 mg.", "3": "New."})
    after = found.with_run(RUN, later, (replace(BY_HAND, uid="2"),))
    assert after.cells == {DOSE.question: {"1": {"value": "5 mg", "quote": "q", "section": ""}}}
    assert after.runs[-1].changes == {
        "new": ["3"],
        "gone": [{"uid": "2", "title": "Title 2", "reason": "animals"}],
        "changed": {},
    }
    revised = RunRecord("m:clinfo", record("1"), {"1": "Revised."})
    assert found.with_run(RUN, revised, ()).cells == {DOSE.question: {}}
