"""The evaluation of extractive answers: its parts, one whole run over a few documents, and no data."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.evals.extractive import auroc, choose_documents, in_snippet, read_questions
from server.methods.shared.extractive import stems_of

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "evals" / "extractive.py"


def _run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], cwd=ROOT, capture_output=True, text=True, timeout=200, check=True
    )
    return done.stdout


@pytest.mark.server
def test_no_data_is_said_and_is_no_failure(tmp_path: Path) -> None:
    """The folder is an argument."""
    assert _run(str(tmp_path)).startswith("skipped: ")


def test_the_measures() -> None:
    """Ties count half; a sentence is gold where nearly all of it stands in a snippet."""
    assert auroc([0.9, 0.5], [0.5, 0.1]) == pytest.approx(0.875)
    snippets = [stems_of("In all patients, protamine reverses heparin quickly.")]
    assert in_snippet("Protamine reverses heparin.", snippets)
    assert not in_snippet("Protamine is made from the sperm of salmon.", snippets)


def test_the_sample_does_not_depend_on_the_order_of_the_file() -> None:
    """Gold documents are always in it."""
    rows = [
        {"id": str(n), "question": f"q{n}", "gold_pmids": [str(n)], "snippets": [{"pmid": str(n), "text": "t"}]}
        for n in range(9)
    ]
    assert read_questions(rows, 3) == read_questions(rows[::-1], 3)
    documents = [{"pmid": str(n)} for n in range(9)]
    chosen = choose_documents(documents, frozenset({"4"}), 2)
    assert chosen[0] == {"pmid": "4"} and len(chosen) == 3


@pytest.mark.server
def test_a_whole_run_tells_both_conditions(tmp_path: Path) -> None:
    """A question whose document is there is answered from it, and abstained from without it."""
    topics = ("heparin", "warfarin", "dabigatran", "rivaroxaban")
    corpus = [
        {"pmid": str(n), "title": "", "abstract": f"The agent zeta{n} reverses {topic} within minutes."}
        for n, topic in enumerate(topics)
    ]
    questions = [
        {
            "id": f"id{n}",
            "question": f"What reverses {topic} within minutes?",
            "gold_pmids": [str(n)],
            "snippets": [{"pmid": str(n), "text": corpus[n]["abstract"]}],
        }
        for n, topic in enumerate(topics)
    ]
    for name, rows in (("corpus", corpus), ("questions_dev", questions)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    told = _run(str(tmp_path), "--encoder", "hashing", "--work", str(tmp_path / "work"))
    table = dict(line.strip("| ").split(" | ") for line in told.splitlines() if line.startswith("|"))
    assert float(table["gold sentence among the candidates"]) == 1.0
    assert float(table["first sentence in a gold snippet"]) == 1.0
    assert float(table["AUROC, gold there or removed"]) > 0.5
