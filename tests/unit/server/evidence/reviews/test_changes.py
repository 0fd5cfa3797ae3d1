"""What is new, gone and changed between two runs of a review."""

from __future__ import annotations

from server.evidence.reviews.changes import Gone, changes_of
from server.methods.shared.evidence_table import EvidenceRow, Exclusion, Finding


def row(uid: str, result: str = "", *notices: str) -> EvidenceRow:
    return EvidenceRow(number=0, uid=uid, title=f"Title {uid}", url="", result=Finding(result, result), notices=notices)


def test_the_same_rows_have_no_changes() -> None:
    found = changes_of([row("1", "Better."), row("2")], [row("2"), row("1", "Better.")])
    assert found.as_dict == {"new": [], "gone": [], "changed": {}}


def test_new_and_gone_articles_are_told_with_the_reason_that_the_later_run_has() -> None:
    excluded = [Exclusion("2", "Title 2", "screening", "not relevant by score")]
    found = changes_of([row("1"), row("2"), row("3")], [row("4"), row("1")], excluded)
    assert found.new == ("4",)
    assert found.gone == (Gone("2", "Title 2", "not relevant by score"), Gone("3", "Title 3"))


def test_a_retraction_since_and_another_result_are_changes() -> None:
    found = changes_of([row("1", "Better."), row("2", "Worse.")], [row("1", "Better.", "retracted"), row("2", "Same.")])
    assert found.changed == {"1": ("notices",), "2": ("result",)}
