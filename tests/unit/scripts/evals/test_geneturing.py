"""GeneTuring: strict and normalised scores, what is taken for the answer, and what a failed request scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.evals import geneturing
from scripts.evals.geneturing import answer_of, load, normalised_score, strict_score, table
from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.harness.records import Record, Reply
from scripts.evals.harness.run_file import last_records

ROWS = [
    {"set": "GeneTuring", "task": "Gene alias", "question": "Symbol of LMP10?", "answer": "PSMB10"},
    {"set": "GeneTuring", "task": "Gene alias", "question": "Symbol of QSK?", "answer": "SIK3"},
    {"set": "GeneHop", "task": "Disease gene location", "question": "Where?", "answer": ["3q21", "12q13"]},
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    return path


@pytest.mark.parametrize(
    ("task", "gold", "answer", "strict", "normalised"),
    [
        ("Gene alias", "PSMB10", "PSMB10", 1.0, 1.0),
        ("Gene alias", "PSMB10", "psmb10.", 0.0, 1.0),
        ("Gene alias", "PSMB10", "PSMB9", 0.0, 0.0),
        ("Gene location", "chr8", "8", 0.0, 1.0),
        ("Gene location", "chr8", "Chromosome 8", 0.0, 1.0),
        ("SNP location", "chr13", "chr1", 0.0, 0.0),
        ("Protein-coding genes", "NA", "No", 0.0, 1.0),
        ("Protein-coding genes", "TRUE", "Yes, it is.", 0.0, 1.0),
        ("Protein-coding genes", "TRUE", "No", 0.0, 0.0),
        ("Gene disease association", "KRT12, KRT3", "KRT3", 0.5, 0.5),
        ("Gene disease association", "IL6, IL6", "IL6", 1.0, 1.0),
        ("Human genome DNA aligment", "chr15:10-20", "chr15", 0.5, 0.5),
        ("Human genome DNA aligment", "chr15:10-20", "chr15:10-20", 1.0, 1.0),
        ("Human genome DNA aligment", "chr15:10-20", "chr1:10-20", 0.0, 0.0),
        ("Multi-species DNA aligment", "yeast", "Saccharomyces cerevisiae S288C", 0.0, 1.0),
        ("Multi-species DNA aligment", "rat", "mouse", 0.0, 0.0),
        ("Disease gene location", ["21q22.3"], "21q22.3", 1.0, 1.0),
        ("SNP gene function", "ncRNA", "non-coding RNA", 0.0, 1.0),
        ("SNP gene function", "Enables binding of zinc. Located in nucleus.", "Enables binding of zinc.", 0.0, 1.0),
        ("SNP gene function", "Enables binding of zinc. Located in nucleus.", "ncRNA", 0.0, 0.0),
        ("Gene alias", "PSMB10", "", 0.0, 0.0),
    ],
)
def test_scores(task: str, gold: str | list[str], answer: str, strict: float, normalised: float) -> None:
    """Strict wants the exact text; normalised forgives form, never content."""
    assert strict_score(task, gold, answer) == strict
    assert normalised_score(task, gold, answer) == normalised


@pytest.mark.parametrize(
    ("text", "marked", "answer"),
    [
        ("I search.\nAnswer: PSMB10\n\nQuestion: more", None, "PSMB10"),
        ("Answer: A\nAnswer: B", None, "B"),
        ("PSMB10 [1]", "PSMB10", "PSMB10"),
        ("Answer: PSMB10", "", ""),
    ],
)
def test_the_marked_answer_comes_before_the_last_that_the_text_names(
    source: Path, text: str, marked: str | None, answer: str
) -> None:
    """Also where the server says that there is none."""
    reply = Reply(text=text, arrowhead=None if marked is None else {"answer": marked})
    assert answer_of(Record(load(source)[0], reply)) == answer


def test_a_failed_request_scores_nothing_and_tasks_count_alike(source: Path) -> None:
    alias, other, hop = load(source)
    failed = Reply(error={"kind": "timeout", "message": "late"})
    told = table(
        [Record(alias, Reply(text="psmb10 gene")), Record(other, failed), Record(hop, Reply(text="12q13, 3q21"))]
    )
    assert "| Gene alias | 2 | 0.500 | 0.000 |" in told
    assert "| GeneHop, macro mean | 1 | 1.000 | 1.000 |" in told


def test_a_run_asks_the_chosen_task(
    endpoint: Any, completion_of: Any, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.answer = lambda body: completion_of("PSMB10", arrowhead={"answer": "PSMB10"})
    out = tmp_path / "run.jsonl"
    arguments = [str(source), "--base-url", endpoint.url, "--out", str(out), "--task", "Gene alias"]
    assert geneturing.main(arguments) == 0
    assert "| Gene alias | 2 | 0.500 | 0.500 |" in capsys.readouterr().out
    assert len(list(last_records(out))) == 2


def test_a_task_that_is_not_there_is_refused(source: Path, tmp_path: Path) -> None:
    """And so is a file without questions."""
    assert geneturing.main([str(source), "--task", "none", "--out", str(tmp_path / "run.jsonl")]) == 2
    (tmp_path / "bad").write_text('{"set": 1}')
    with pytest.raises(DatasetInvalid):
        load(tmp_path / "bad")
