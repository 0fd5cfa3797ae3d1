"""Which method counts as rightly chosen for a natural question."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from scripts.evals.natural import PASSAGES, QUESTIONS, chose_right, documents_of, question_of, verdict_of

ROWS: list[dict[str, Any]] = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]


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


def test_each_shipped_question_can_be_judged() -> None:
    """It is there once, and either has a text that is right and that an empty answer lacks, or nothing answers it."""
    assert len({row["id"] for row in ROWS}) == len(ROWS) >= 130
    for row in ROWS:
        assert bool(row["must"]) != row["not_in_data"], row["id"]
        assert not any(re.search(pattern, "") for pattern in row["must"] + row["must_not"]), row["id"]


def test_what_nothing_answers_is_rightly_refused_alone() -> None:
    nothing = next(row for row in ROWS if row["not_in_data"])
    assert verdict_of(nothing, "not_found", "") == "rightly refused"
    assert verdict_of(nothing, "answered", "It is 5 mg.") == "sure"
    known = next(row for row in ROWS if row["id"] == "known-alias-lmp10")
    assert [verdict_of(known, "answered", text) for text in ("PSMB10", "PSMB9")] == ["right", "sure"]


def test_the_shipped_passages_have_titles_and_texts() -> None:
    passages = documents_of(PASSAGES)
    assert len(passages) == 38 and all(one["title"] and one["text"] for one in passages)
