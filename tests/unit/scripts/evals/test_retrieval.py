"""The measures of the retrieval evaluation, by hand, and a run over a small corpus."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from scripts.evals import retrieval as evaluation

GOLD = frozenset({"a", "b", "c"})


def test_measures_are_those_of_bioasq() -> None:
    """Two of three gold documents, at places 1 and 3."""
    ranked = ["a", "x", "b", "y"]
    assert evaluation.ndcg(["a", "b", "c"], GOLD) == pytest.approx(1.0)
    assert evaluation.ndcg(ranked, GOLD) == pytest.approx((1 + 0.5) / (1 + 0.63093 + 0.5), abs=1e-4)
    assert evaluation.reciprocal_rank(ranked, frozenset({"b"})) == pytest.approx(1 / 3)
    assert evaluation.reciprocal_rank(ranked, frozenset({"z"})) == 0.0


def test_a_snippet_is_found_in_a_passage_of_its_own_document() -> None:
    """Blanks do not count, another document does."""
    passages = [("a", "Some  text of\na passage."), ("b", "Other.")]
    assert evaluation.snippet_recall(passages, [("a", "text of a"), ("b", "text of a")]) == 0.5


def test_halves_are_stable_and_share_no_question() -> None:
    """By the identifier alone."""
    questions = [evaluation.Question(str(number), "known", "?", frozenset("a")) for number in range(400)]
    dev, test = (evaluation.in_half(questions, half) for half in ("dev", "test"))
    assert len(dev) + len(test) == 400
    assert 150 < len(dev) < 250
    assert not {one.id for one in dev} & {one.id for one in test}
    assert questions[0].half == evaluation.Question("0", "yesno", "other", GOLD).half


def test_a_run_prints_every_arm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With an encoder without weights; a second run finds the namespace there."""
    rows = [
        {"pmid": str(number), "title": f"Gene {number}", "abstract": f"The gene{number} acts on word{number}."}
        for number in range(1, 30)
    ]
    questions = [
        {"id": str(number), "type": "factoid", "question": f"What does gene{number} act on?",
         "gold_pmids": [str(number)], "snippets": [{"pmid": str(number), "text": f"acts on word{number}"}]}
        for number in range(1, 30)
    ]  # fmt: skip
    for name, lines in (("corpus", rows), ("questions_dev", questions)):
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines)
    arguments = [str(tmp_path), "--encoder", "hashing", "--work", str(tmp_path / "work"), "--retrievers", "bm25,hybrid"]
    assert evaluation.main([*arguments, "--json", str(tmp_path / "out.json")]) == 0
    result = json.loads((tmp_path / "out.json").read_text())["bioasq"]
    assert result["bm25"]["MAP@10"] == result["bm25"]["snippets@10"] == 1.0
    assert set(result) == {"bm25", "bm25 + late", "hybrid", "hybrid + late"}
    assert "29 documents added" in capsys.readouterr().err
    assert evaluation.main([*arguments, "--half", "test"]) == 0
    assert "documents added" not in capsys.readouterr().err
    (tmp_path / "corpus.jsonl.gz").write_bytes(b"no gzip")
    assert evaluation.main(arguments) == 2
