"""BioASQ over a corpus: which answers are right, and which cite a gold article."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts.evals import bioasq
from scripts.evals.bioasq import cites_gold, is_right, table
from scripts.evals.harness.records import Question, Record, Reply


def record(key: Any, text: str, outcome: str = "answered", **details: Any) -> Record:
    group = "yesno" if isinstance(key, str) else "factoid"
    question = Question(id="q", group=group, text="?", key=key, messages=(), meta={"gold": ["7"]})
    marked = {"answer": text, "outcome": outcome}
    return Record(question, Reply(text=text, arrowhead=marked, trace={"choices": [{"details": details}]}))


@pytest.mark.parametrize(
    ("key", "text", "right"),
    [
        ("yes", "Yes, it does [1].", True),
        ("no", "**No**", True),
        ("no", "No passage that was found answers this question.", False),
        ("yes", "It does.", False),
        ([["TP53", "p53"]], "The gene p53 [2].", True),
        ([["TP53"]], "TP53BP1", False),
    ],
)
def test_an_answer_begins_with_the_right_word_or_names_an_item(key: Any, text: str, right: bool) -> None:
    assert is_right(record(key, text)) is right


def test_a_gold_article_is_cited_where_its_number_is() -> None:
    passages = [{"number": 1, "document_id": "PMID:7"}, {"number": 2, "document_id": "PMID:8"}]
    assert cites_gold(record("yes", "Yes [1]", citations=passages, cited=[1]))
    assert not cites_gold(record("yes", "Yes [2]", citations=passages, cited=[2]))
    assert not cites_gold(record("yes", "Yes"))


def test_shares_are_by_form_and_answer() -> None:
    told = table([record("yes", "Yes."), record("no", "Yes."), record("no", "?", "abstained")])
    assert "| yesno | 3 | 0.33 |" in told
    assert "| yesno, answered | 3 | 0.67 |" in told
    assert "| yesno, right of those answered | 2 | 0.50 |" in told


def test_a_folder_without_questions_is_refused(tmp_path: Path) -> None:
    assert bioasq.main([str(tmp_path), "--out", str(tmp_path / "run.jsonl")]) == 2
