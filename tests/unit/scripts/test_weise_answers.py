"""The evaluation of WeiseEule's answers: what counts as a correct citation, and a whole run over a few papers."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.evals.weise_answers import Scored, Told, score, table_of

ROOT = Path(__file__).parents[3]
GOLD = frozenset({"1"})


def told(text: str, outcome: str = "answered") -> Told:
    passages = {1: "SWR1\nSWR1 deposits H2A.Z [4]\nin yeast. It is a complex.", 2: "Rice\nRice grows."}
    return Told(text, outcome, passages, {1: "1", 2: "2"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("“SWR1 deposits H2A.Z (4) in yeast.” [1]", Scored(True, 1, 1.0, 1.0, 1.0, True)),
        ("SWR1: “It is a complex.” [1]\n“Rice grows.” [2]", Scored(True, 2, 1.0, 1.0, 0.5, True)),
        ("“Rice grows.” [1]\n“Rice shrinks by 12 %.” [2]", Scored(True, 2, 0.0, 0.0, 0.5, True)),
        ("“Rice grows.” [7]", Scored(True, 1, 0.0, 0.0, 0.0, False)),
    ],
)
def test_a_quote_is_right_where_it_stands_in_the_passage_that_it_cites(text: str, expected: Scored) -> None:
    """Line breaks and brackets aside; a passage of a gold paper is what the question asks for."""
    assert score(told(text), GOLD) == expected


def test_an_abstention_has_no_quotes_and_does_not_lower_the_shares() -> None:
    """It is counted as not answered."""
    silent = score(told("No passage that was found answers this question.", "abstained"), GOLD)
    assert silent == Scored(False)
    rows = dict(table_of([silent, score(told("“Rice grows.” [2]"), GOLD)]))
    assert rows["answered"] == "1 of 2"
    assert rows["quotes that stand in the passage that they cite"] == "1.000 [1.000, 1.000]"
    assert rows["quotes from a gold paper"] == "0.000 [0.000, 0.000]"


@pytest.mark.server
def test_a_run_asks_each_question_and_prints_the_measures(tmp_path: Path) -> None:
    """Over papers of which one answers a question of the evaluation; without an encoder, by words alone."""
    own = json.loads((ROOT / "scripts/evals/questions/weiseeule.json").read_text(encoding="utf-8"))["own"]
    asked, gold = own[0]["question"], own[0]["gold"][0]
    rows = [{"pmid": gold, "title": "On the question", "abstract": f"{asked[:-1]} is known.", "body": ""}]
    rows.append({"pmid": "5", "title": "Weather", "abstract": "The weather is fine in May.", "body": ""})
    with gzip.open(tmp_path / "weise_namespace_vit_dev.jsonl.gz", "wt", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)
    published = [{"question": f"What is known of topic {n}?"} for n in range(10)]
    (tmp_path / "weise_table3_questions.json").write_text(json.dumps(published))
    script = ROOT / "scripts" / "evals" / "weiseeule.py"
    command = [sys.executable, str(script), str(tmp_path), "--answers", "--encoder", "none"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=True)

    assert "2 papers" in done.stdout and "answers from passages by pes2:" in done.stdout
    assert "| quotes that stand in the passage that they cite | 1.000 [1.000, 1.000] |" in done.stdout
    assert "ms a query" not in done.stdout
