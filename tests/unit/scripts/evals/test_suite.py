"""scripts/evals/run_all: every evaluation with data, its records, one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.evals import suite
from scripts.evals.suite import main

QUESTION = {
    "set": "GeneTuring",
    "task": "Gene alias",
    "question": "What is the official gene symbol of LMP10?",
    "answer": "PSMB10",
}
MEDICAL = {"mmlu": {"1": {"question": "Which?", "options": {"A": "x", "B": "y"}, "answer": "B"}}}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    rows = [QUESTION, QUESTION | {"question": "What is the official gene symbol of SEP3?", "answer": "SEPTIN3"}]
    (folder / "geneturing.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "benchmark.json").write_text(json.dumps(MEDICAL))
    return folder


def arguments(url: str, data: Path, *more: str) -> list[str]:
    out = data.parent / "out"
    return ["--url", url.removesuffix("/v1"), "--model", "m", "--data", str(data), "--out", str(out), *more]


def cells(text: str, name: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {name} "))
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.server
def test_what_has_data_is_asked_and_told_in_one_table(
    endpoint: Any, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each over its method; asked again, nothing is asked twice, and what has no data is said to have none."""
    endpoint.answer = lambda body: "PSMB10" if body["model"] == "m:genegpt" else "B"
    only = ("--only", "geneturing,mirage,bioasq")
    assert main(arguments(endpoint.url, data, *only)) == 0
    first = capsys.readouterr().out
    asked = sorted(body["model"] for body in endpoint.asked if "messages" in body)

    assert cells(first, "geneturing")[1:5] == ["m:genegpt", "2", "0", "0.500"]
    assert cells(first, "mirage")[1:5] == ["m:medrag", "1", "0", "1.000"]
    assert (cells(first, "bioasq")[-1], cells(first, "capable")[-1]) == ("no data", "not asked for")
    assert main(arguments(endpoint.url, data, *only)) == 0
    assert sorted(body["model"] for body in endpoint.asked if "messages" in body) == asked
    assert cells(capsys.readouterr().out, "geneturing")[2:5] == ["2", "0", "0.500"]
    assert (data.parent / "out" / "table.md").read_text() == first


@pytest.mark.server
def test_an_evaluation_that_cannot_run_is_told(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody listens at the address: the state says so, the log has the reason, and the others are run."""
    code = main(arguments("http://127.0.0.1:9/v1", data, "--only", "geneturing,mirage"))
    told = capsys.readouterr().out
    assert code == 1
    assert cells(told, "geneturing")[-1] != "done" and cells(told, "mirage")[-1] != "done"
    assert "127.0.0.1:9" in (data.parent / "out" / "geneturing.log").read_text()


def test_results_that_are_written_at_the_end_are_read(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of answers that are played without a server, and of questions as people put them."""
    out = data.parent / "out"
    out.mkdir()
    played = [
        {"right": True, "outcome": "answered", "labels": []},
        {"right": True, "outcome": "partial", "labels": []},
        {"right": False, "outcome": "answered", "labels": ["no source"]},
    ]
    (out / "capable.json").write_text(json.dumps(played))
    natural = {"questions": 3, "good": 0.667, "median_s": 1.2, "failed": 1}
    (out / "natural.json").write_text(json.dumps({"summary": {"all": natural}}))
    (data / "natural").mkdir()
    for name in ("questions_dev.jsonl", "passages.jsonl"):
        (data / "natural" / name).write_text("")

    assert main(arguments("http://127.0.0.1:9", data, "--only", "natural,capable")) == 0
    told = capsys.readouterr().out
    assert cells(told, "capable")[2:5] == ["3", "0", "right kept 1/2, wrong labelled 1/1"]
    assert cells(told, "natural")[2:5] == ["3", "1", "0.667"] and cells(told, "natural")[-1] == "done before"


def test_the_limit_and_the_names_are_passed_on(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "everything"])
    assert "there are geneturing, genehop" in capsys.readouterr().err
    assert set(suite.NAMES) == {part.name for part in suite.PARTS} | {"natural", "capable"}
