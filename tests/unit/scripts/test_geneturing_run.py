"""GeneTuring through the harness: what is taken for the answer, and what a failed request scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.benchmarks.decoding.tokens_computed import transcripts
from scripts.evals.geneturing import run as geneturing
from scripts.evals.geneturing.records import answer_of, load, summarise
from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.harness.records import Record, Reply
from scripts.evals.harness.run_file import last_records

ROWS = [
    {"set": "GeneTuring", "task": "Gene alias", "question": "Symbol of LMP10?", "answer": "PSMB10"},
    {"set": "GeneTuring", "task": "Gene alias", "question": "Symbol of QSK?", "answer": "SIK3"},
    {"set": "GeneTuring", "task": "Gene location", "question": "Where is FOXL2NB?", "answer": "chr3"},
    {"set": "GeneHop", "task": "Disease gene location", "question": "Where?", "answer": ["3q21", "12q13"]},
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    return path


@pytest.mark.parametrize(
    ("text", "marked", "answer"),
    [
        ("I search.\nAnswer: PSMB10\n\nQuestion: more", None, "PSMB10"),
        ("Answer: A\nAnswer: B", None, "B"),
        ("PSMB10\n\nbecause", None, "PSMB10"),
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


def test_a_failed_request_scores_nothing(source: Path) -> None:
    """As it always did in this benchmark."""
    alias, other, place, hop = load(source)
    failed = Reply(error={"kind": "timeout", "message": "late"})
    records = [Record(alias, Reply(text="psmb10 gene")), Record(other, failed), Record(place, Reply(text="3"))]
    found = summarise([*records, Record(hop, Reply(text="12q13, 3q21"))])
    tasks = found["GeneTuring"]
    assert (tasks["Gene alias"].number, tasks["Gene alias"].normalised, tasks["Gene alias"].strict) == (2, 0.5, 0.0)
    assert tasks["Gene location"].normalised == 1.0
    assert found["GeneHop"]["Disease gene location"].strict == 1.0


def test_a_run_writes_what_the_token_benchmark_reads(
    endpoint: Any, completion_of: Any, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Questions, answers and traces; a table for each set."""
    spans = [{"kind": "sampled", "text": "x"}]
    endpoint.traces["t"] = {"choices": [{"calls": [{}], "spans": spans}]}
    endpoint.answer = lambda body: completion_of("PSMB10", arrowhead={"answer": "PSMB10", "trace_id": "t"})
    out = tmp_path / "run.jsonl"
    arguments = [str(source), "--base-url", endpoint.url, "--out", str(out), "--task", "Gene alias"]
    assert geneturing.main(arguments) == 0
    assert "Gene alias" in capsys.readouterr().out
    assert len(list(last_records(out))) == 2
    assert sorted(transcripts(out, 9)) == [("Symbol of LMP10?", spans), ("Symbol of QSK?", spans)]


def test_a_task_that_is_not_there_is_refused(source: Path, tmp_path: Path) -> None:
    """And so is a file without questions."""
    assert geneturing.main([str(source), "--task", "none", "--out", str(tmp_path / "run.jsonl")]) == 2
    (tmp_path / "bad").write_text('{"set": 1}')
    with pytest.raises(DatasetInvalid):
        load(tmp_path / "bad")
