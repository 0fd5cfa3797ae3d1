"""What a review found survives its way through a trace's JSON."""

from __future__ import annotations

import json

from server.methods.shared.evidence_table import (
    FINDINGS,
    REVIEW,
    TABLE,
    EvidenceRow,
    Exclusion,
    Finding,
    Query,
    Review,
    Sentence,
    review_of,
)

ROW = EvidenceRow(
    number=1,
    uid="32678530",
    title="Dexamethasone in Hospitalized Patients with Covid-19",
    url="https://pubmed.ncbi.nlm.nih.gov/32678530/",
    item={"id": "pmid:32678530", "type": "article-journal"},
    level="trial",
    score=0.93,
    found_by=("q1", "bm25"),
    result=Finding("28-day mortality 22.9% versus 25.7%", "482 patients (22.9%)", "RESULTS"),
)
WHOLE = Review(
    question="Does dexamethasone lower mortality?",
    queries=(Query("dexamethasone[tiab]", "gateway", 3), Query("((", "gateway", None, "does not parse")),
    counts={"found": 3, "duplicates": 0, "screened": 3, "excluded": 1, "included": 2, "cited": 1},
    excluded=(Exclusion("1", "Other", "screening", "about another drug"),),
    rows=(ROW,),
    tldr="It does in those on oxygen [1].",
    sentences=(Sentence("It does.", (1,), True),),
    contradictions=("[1] and [2] disagree.",),
)


def test_a_review_comes_back_from_the_json_of_its_trace() -> None:
    assert review_of(json.loads(json.dumps(WHOLE.details))) == WHOLE


def test_the_rows_stand_apart_from_the_rest() -> None:
    details = WHOLE.details
    assert details[TABLE][0]["uid"] == "32678530"
    assert "rows" not in details[REVIEW]


def test_a_trace_of_another_method_has_no_review() -> None:
    assert review_of({"mask": "111111"}) is None
    assert review_of({}) is None


def test_the_cells_of_a_row_come_in_the_order_of_the_columns() -> None:
    assert list(ROW.findings) == list(FINDINGS)
    assert ROW.findings["result"].quote == "482 patients (22.9%)"
    assert ROW.findings["population"] == Finding()
