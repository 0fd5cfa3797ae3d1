"""Which method counts as rightly chosen for a natural question."""

from __future__ import annotations

import pytest

from scripts.evals.natural import chose_right, question_of


@pytest.mark.parametrize(
    ("method", "data", "answered_by", "verdict", "is_right"),
    [
        ("clinfo", "passages", "medrag", "right", True),  # both read the namespace of the run
        ("weiseeule", "shipped", "medrag", "right", True),
        ("clinfo", "shipped", "medrag", "right", False),  # the notes are no articles
        ("medrag", "shipped", "kg-rag", "right", False),
        ("genegpt", "shipped", "kg-rag", "rightly refused", True),  # no method has it
        ("kg-rag", "shipped", "kg-rag", "sure", True),
    ],
)
def test_the_source_decides_not_the_name(
    method: str, data: str, answered_by: str, verdict: str, is_right: bool
) -> None:
    assert chose_right({"method": method, "data": data}, answered_by, verdict) is is_right


def test_auto_is_told_no_sources() -> None:
    """The named review is: it would search articles beside the namespace."""
    row = {"id": 1, "method": "clinfo", "question": "Does it help?"}
    assert question_of(row, "mine").arrowhead == {"namespaces": ["mine"], "sources": ["namespaces"]}
    assert question_of(row, "mine", is_auto=True).arrowhead == {"namespaces": ["mine"]}
