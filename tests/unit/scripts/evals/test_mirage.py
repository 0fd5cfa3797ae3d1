"""MIRAGE's evaluation from the questions file to the figure."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scripts.evals import mirage
from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.harness.records import Question, Record, Reply, digest_of
from scripts.evals.harness.run_file import Run, RunFile, last_records, read_records
from scripts.evals.mirage import lenient, load, messages, put, select, strict, summarise, table
from server.methods.shared.choices import listed_choices

ROOT = Path(__file__).parents[4]
DATA = Path(os.environ.get("ARROWHEAD_EVAL_DATA", Path(__file__).parents[5] / "shared" / "data")) / "qa"
OPTIONS = {"A": "heart", "B": "lung", "C": "liver", "D": "skin"}


def slowly(_: dict[str, Any]) -> str:
    time.sleep(0.05)
    return "B"


def row(dataset: str, name: str, answer: str = "B", **changes: Any) -> dict[str, Any]:
    made = {"dataset": dataset, "id": name, "question": f"Which organ is {name}?", "options": OPTIONS, "answer": answer}
    return {**made, **changes}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def question(name: str = "medqa/1", key: str = "B") -> Question:
    return Question(
        id=name,
        group=name.partition("/")[0],
        text="Which organ?",
        key=key,
        options=OPTIONS,
        messages=messages("?", "plain"),
    )


def told(text: str, key: str = "B", name: str = "medqa/1", marked: str | None = None) -> Record:
    return Record(question(name, key), Reply(text=text, arrowhead=None if marked is None else {"answer": marked}))


def test_both_formats_hold_the_same_questions(tmp_path: Path) -> None:
    """Lines, gzipped lines and benchmark.json have one digest; sets come in MIRAGE's order, identifiers sorted."""
    rows = [row("medqa", "0002"), row("medqa", "0001"), row("mmlu", "anatomy-000", PMID=[1])]
    lines = write(tmp_path / "dev.jsonl", rows)
    zipped = tmp_path / "dev.jsonl.gz"
    zipped.write_bytes(gzip.compress(lines.read_bytes()))
    benchmark: dict[str, dict[str, Any]] = {}
    for one in rows:
        benchmark.setdefault(one["dataset"], {})[one["id"]] = {
            key: value for key, value in one.items() if key not in ("dataset", "id")
        }
    whole = tmp_path / "benchmark.json"
    whole.write_text(json.dumps(benchmark, indent=1))
    found = [load(path) for path in (lines, zipped, whole)]
    assert [q.id for q in found[0]] == ["mmlu/anatomy-000", "medqa/0001", "medqa/0002"]
    assert len({digest_of(questions) for questions in found}) == 1


@pytest.mark.parametrize(
    "rows",
    [
        [row("medqa", "1", "E")],
        [row("medqa", "1", options={"B": "x", "A": "y"})],
        [{"dataset": "medqa", "id": "1"}],
        [row("medqa", "1"), row("medqa", "1")],
    ],
)
def test_a_question_that_cannot_be_scored_is_refused(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    """A key that is no choice, letters out of order, missing fields, an identifier that comes twice."""
    with pytest.raises(DatasetInvalid):
        load(write(tmp_path / "dev.jsonl", rows))


def test_choices_stand_on_lines_that_our_methods_read(tmp_path: Path) -> None:
    """A line break or a lettered list inside the question does not end it."""
    text = put("See:\nA. this\nWhich?", {"A": "heart\nor soul", "B": "lung"})
    assert text == "See: A. this Which?\nA. heart or soul\nB. lung"
    assert listed_choices(text)[0] == ("heart or soul", "lung")


def test_a_smaller_limit_is_part_of_a_larger_one(tmp_path: Path) -> None:
    """So that a run goes on with more questions."""
    questions = load(write(tmp_path / "d.jsonl", [row(s, f"{n:03d}") for s in ("mmlu", "medqa") for n in range(30)]))
    few, more = select(questions, limit=5), select(questions, limit=9)
    assert len(few) == 10
    assert {q.id for q in few} < {q.id for q in more}
    assert [q.group for q in select(questions, ["medqa"], 2)] == ["medqa", "medqa"]
    with pytest.raises(DatasetInvalid, match="nosuch"):
        select(questions, ["nosuch"])


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (told('{"step_by_step_thinking": "…", "answer_choice": "B"}'), (1, 1)),
        (told('{"answer_choice": "None of the above"}', key="A"), (0, 1)),
        (told("I cannot tell.", key="A"), (0, 1)),
        (told("The answer is B."), (1, 0)),
        (told("Option A is wrong. The answer is (B)."), (1, 0)),
        (told("lung\n\n[1] a source", marked="lung"), (1, 1)),
        (told("none of these", key="A", marked="none of these"), (0, 1)),
        (told("B cells", key="B", marked="B cells"), (0, 0)),
        (told('{"answer_choice": "A or B"}', key="A"), (0, 1)),
    ],
)
def test_strict_and_lenient_scores_differ_where_a_reply_says_no_letter(
    record: Record, expected: tuple[int, int]
) -> None:
    """MIRAGE's gives the key A away; what a server marks as its answer is handed to it as a letter."""
    assert (strict(record), lenient(record)) == expected


def test_the_official_score_is_the_mean_over_sets() -> None:
    """Failed requests are beside, not in; the best constant letter stands next to each set."""
    records = [told("B", "B", f"medqa/{n}") for n in range(3)] + [told("B", "A", "medqa/4")]
    records += [told("A", "A", "mmlu/1"), told("?", "A", "mmlu/2")]
    records.append(Record(question("mmlu/3"), Reply(error={"kind": "timeout", "message": ""})))
    mmlu, medqa, macro = summarise(records)
    assert (medqa["strict"], mmlu["strict"], mmlu["failed"], mmlu["unanswered"]) == (0.75, 0.5, 1, 1)
    assert (macro["strict"], macro["lenient"], macro["replies"]) == (0.625, (0.75 + 1) / 2, 6)
    assert (medqa["constant"], mmlu["constant"]) == (0.75, 1.0)


def test_a_run_prints_scores_and_refuses_another_runs_file(
    endpoint: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bare models are told what to reply, methods are not."""
    source = write(tmp_path / "d.jsonl", [row("medqa", str(n)) for n in range(4)])
    out = ["--out", str(tmp_path / "run.jsonl"), "--base-url", endpoint.url]
    assert mirage.main([str(source), *out, "--model", "m"]) == 0
    assert [m["role"] for m in endpoint.asked[0]["messages"]] == ["system", "user"]
    assert mirage.main([str(source), *out, "--model", "m:medrag", "--options", '{"k": 16}']) == 2
    assert "records of another run" in capsys.readouterr().out
    other = ["--out", str(tmp_path / "other.jsonl"), "--base-url", endpoint.url]
    assert mirage.main([str(source), *other, "--model", "m:medrag", "--options", '{"k": 16}']) == 0
    assert [m["role"] for m in endpoint.asked[-1]["messages"]] == ["user"]
    assert endpoint.asked[-1]["arrowhead"] == {"k": 16}


@pytest.mark.server
def test_a_killed_run_loses_and_doubles_nothing(endpoint: Any, tmp_path: Path) -> None:
    """SIGKILL in the midst, and a torn last line; the same command asks the rest."""
    endpoint.answer = slowly
    source = write(tmp_path / "d.jsonl", [row("medqa", f"{n:03d}") for n in range(200)])
    out = tmp_path / "run.jsonl"
    arguments = [str(source), "--out", str(out), "--base-url", endpoint.url, "--model", "m:x", "--concurrency", "2"]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "scripts/evals/mirage.py"), *arguments], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    while process.poll() is None and (not out.exists() or out.read_bytes().count(b"\n") < 8):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = [record.question.id for record in read_records(out)]
    assert 7 <= len(before) < 200
    with out.open("a") as file:
        file.write('{"id": "medqa/0')
    endpoint.answer = lambda body: "B"
    assert mirage.main(arguments) == 0
    after = [record.question.id for record in read_records(out)]
    assert after[: len(before)] == before
    assert sorted(after) == [f"medqa/{n:03d}" for n in range(200)]
    # Asked twice are only those that were in flight.
    assert len(endpoint.asked) <= 200 + 2


@pytest.mark.server
def test_an_interrupted_run_ends_cleanly_and_goes_on(endpoint: Any, tmp_path: Path) -> None:
    """Ctrl-C: code 130, a summary of what is there, whole lines."""
    endpoint.answer = slowly
    source = write(tmp_path / "d.jsonl", [row("medqa", f"{n:03d}") for n in range(200)])
    out = tmp_path / "run.jsonl"
    arguments = [str(source), "--out", str(out), "--base-url", endpoint.url, "--model", "m:x", "--concurrency", "2"]
    command = [sys.executable, str(ROOT / "scripts/evals/mirage.py"), *arguments]
    # A job in the background of a shell passes on that SIGINT is ignored.
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    while process.poll() is None and (not out.exists() or out.read_bytes().count(b"\n") < 5):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate()
    assert process.returncode == 130
    assert "interrupted; the same command goes on" in said
    assert "Traceback" not in said
    assert re.search(r"\d+ questions not asked yet", said)
    assert out.read_bytes().endswith(b"\n")
    assert len(list(read_records(out))) >= 4


@pytest.mark.shared_data
@pytest.mark.skipif(not (DATA / "mirage_dev.jsonl.gz").exists(), reason="needs the evaluation data")
def test_published_questions_are_put_so_that_their_choices_are_read_back() -> None:
    """But for the few with the same choice twice."""
    questions = load(DATA / "mirage_dev.jsonl.gz")
    assert {q.group for q in questions} == {"mmlu", "medqa", "medmcqa", "pubmedqa", "bioasq"}
    unread = [q for q in questions if len(listed_choices(q.messages[-1]["content"])[0]) != len(q.options)]
    assert all(len({text.strip() for text in q.options.values()}) < len(q.options) for q in unread)
    assert len(unread) < 5


def test_nothing_but_failures_is_no_score() -> None:
    """A dash, where 0.000 would look like one."""
    told = table(summarise([Record(question(), Reply(error={"kind": "timeout", "message": ""}))]))
    assert "macro mean" in told
    assert "0.000" not in told


def test_records_of_a_retry_are_summed_up_once(tmp_path: Path) -> None:
    """The last reply of each question counts."""
    with RunFile(tmp_path / "r", Run(evaluation="mirage", model="m", dataset="d")) as file:
        file.append(told("A"))
        file.append(told("B"))
    assert summarise(last_records(tmp_path / "r"))[-1]["strict"] == 1.0
