"""KG-RAG's question sets: how they are put, scored and summed up."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from scripts.evals import kg_rag
from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.harness.records import Question, Record, Reply
from scripts.evals.kg_rag import gives, load, names, status_of, table

DATA = Path(os.environ.get("ARROWHEAD_EVAL_DATA", Path(__file__).parents[5] / "shared" / "data")) / "qa" / "kg_rag"
MULTIPLE = {
    "correct_node": "HLA-B",
    "options_combined": " TERT, HLA-B,  HLA-DQA1,  TERT",
    "text": "Which Gene is associated with psoriasis and zoster. Given list is:  TERT, HLA-B,  HLA-DQA1,  TERT",
}
STATEMENT = {"text": "Muenke Syndrome associates Gene FGFR3", "label": "True"}
P_VALUE = {
    "disease_name": "asthma",
    "gene_name": "RORA",
    "gwas_pvalue": "2e-37",
    "question": "Is asthma associated with RORA?",
    "question_perturbed": "Is asthma associated with rora?",
}
SETS = {
    "mcq_questions_dev": MULTIPLE,
    "true_false_questions_dev": STATEMENT,
    "rag_comparison_data": P_VALUE,
    "dataset_for_entity_retrieval_accuracy_analysis_dev": {"text": "x", "node_hits": "y"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "kg"
    made.mkdir()
    for name, row in SETS.items():
        (made / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    return made


def asked(folder: Path, name: str, form: Any = "method") -> Question:
    questions: list[Question] = load(folder, form)[name][1]
    return questions[0]


def told(question: Question, text: str, marked: str | None = None) -> Record:
    return Record(question, Reply(text=text, arrowhead=None if marked is None else {"answer": marked}))


def test_the_choices_of_a_row_become_an_option_of_the_method(folder: Path) -> None:
    """A repeated choice comes once; a bare model gets an instruction instead, another method the text."""
    multiple = asked(folder, "mcq_questions")
    assert multiple.arrowhead == {"choices": ["TERT", "HLA-B", "HLA-DQA1"]}
    assert [m["content"] for m in multiple.messages] == [MULTIPLE["text"]]
    plain = asked(folder, "true_false_questions", "plain")
    assert plain.arrowhead == {}
    assert plain.messages == ({"role": "user", "content": f"{STATEMENT['text']}. True or false?"},)
    assert [m["role"] for m in asked(folder, "true_false_questions", "direct").messages] == ["system", "user"]


def test_every_set_with_questions_is_read(folder: Path) -> None:
    """A row of the comparison is asked in two wordings; the linking set holds no questions."""
    assert {name: len(questions) for name, (_, questions) in load(folder, "plain").items()} == {
        "mcq_questions": 1,
        "rag_comparison_data": 2,
        "true_false_questions": 1,
    }


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("mcq_questions", {**MULTIPLE, "correct_node": "KIT"}),
        ("true_false_questions", {**STATEMENT, "label": "perhaps"}),
        ("rag_comparison_data", {**P_VALUE, "gwas_pvalue": "small"}),
        ("rag_comparison_data", {"text": "What?"}),
    ],
)
def test_a_row_that_is_not_of_its_set_is_refused(tmp_path: Path, name: str, row: dict[str, Any]) -> None:
    """With the file's name."""
    (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
    with pytest.raises(DatasetInvalid, match=name):
        load(tmp_path, "plain")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("HLA-B", "right"),
        (" hla-b.", "right"),
        ('{"answer": "HLA-B"}', "right"),
        ("The answer is HLA-B.", "right"),
        ("Psoriasis and zoster share the gene HLA-B, says the context.", "right"),
        ("TERT", "wrong"),
        ("HLA-DQA1", "wrong"),
        ("none of these", "abstained"),
        ("None of the given genes is associated with both.", "abstained"),
        ("I don't know.", "abstained"),
        ("The graph has no statement about psoriasis.", "abstained"),
        ("HLA-B or TERT", "unreadable"),
        ("KIT", "unreadable"),
        ("B", "unreadable"),
        ("", "unreadable"),
    ],
)
def test_a_choice_is_right_wrong_abstained_or_unreadable(folder: Path, text: str, status: str) -> None:
    """Letters mean nothing where the question has none."""
    assert status_of(told(asked(folder, "mcq_questions"), text)) == status


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("True", "right"),
        ("true. It is known for that.", "right"),
        ('{"answer": true}', "right"),
        ("The statement is not true.", "wrong"),
        ("This is incorrect.", "wrong"),
        ("False", "wrong"),
        ("unknown", "abstained"),
        ("It cannot be determined.", "abstained"),
        ("Perhaps", "unreadable"),
        ("It is true. It is false.", "unreadable"),
    ],
)
def test_a_statement_is_judged_or_not(folder: Path, text: str, status: str) -> None:
    """A negated verdict is the other one."""
    assert status_of(told(asked(folder, "true_false_questions"), text)) == status


def test_what_the_server_marks_is_the_answer(folder: Path) -> None:
    """Its explanation and its sources name other choices."""
    reply = told(asked(folder, "mcq_questions"), "none of these\n\nHLA-B is not known.", "none of these")
    assert status_of(reply) == "abstained"


@pytest.mark.parametrize(
    ("text", "is_given"),
    [
        ("2e-37", True),
        ("p = 2E-37.", True),
        ("2 x 10^-37", True),
        ("2×10⁻³⁷", True),
        ("2 \\times 10^{-37}", True),
        ("2.0e-37", True),
        ("2e-38", False),
        ("12e-37", False),
        ("3e-37", False),
        ("2 in 37", False),
        ("", False),
    ],
)
def test_a_p_value_is_found_however_it_is_written(text: str, is_given: bool) -> None:
    """As a number, not as text."""
    assert gives(text, "2e-37") == is_given
    assert gives("0.00002", "2e-5")


def test_the_comparison_wants_gene_and_p_value_in_the_answer(folder: Path) -> None:
    """Not in the sources that the reply lists below it."""
    question = asked(folder, "rag_comparison_data")
    assert status_of(told(question, "Yes, RORA, p-value 2e-37.")) == "right"
    assert status_of(told(question, "Yes.\n\n[1] asthma associates RORA, 2e-37", "Yes.")) == "wrong"
    assert status_of(told(question, "The graph has no entry for asthma.")) == "abstained"


def test_a_name_is_found_as_a_whole_word() -> None:
    """Letter case and white space apart."""
    assert names("the gene hla-b\nhere", "HLA-B")
    assert not names("HLA-B27", "HLA-B")
    assert not names("HLA-DQA1", "HLA-DQA")


def test_abstentions_are_counted_apart(folder: Path) -> None:
    """Answered share, score of all and of those that were answered; failures in neither."""
    question = asked(folder, "mcq_questions")
    records = [told(question, text) for text in ("HLA-B", "HLA-B", "TERT", "none of these", "KIT")]
    records.append(Record(question, Reply(error={"kind": "timeout", "message": ""})))
    assert "| mcq_questions | 5 | 1 | 0.400 | 0.118-0.769 | 0.800 | 0.500 | 1 |" in table(records)


@pytest.mark.parametrize(("model", "is_method"), [("m:kg-rag", True), ("m:medrag", False)])
def test_a_run_prints_baselines_beside_scores(
    endpoint: Any, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], model: str, is_method: bool
) -> None:
    """KG-RAG's options go with each question, over those of the run; another method gets the text."""
    endpoint.answer = lambda body: "HLA-B"
    arguments = [str(folder), "--base-url", endpoint.url, "--model", model, "--out", str(tmp_path / "run.jsonl")]
    assert kg_rag.main([*arguments, "--options", '{"evidence": true}']) == 0
    said = capsys.readouterr().out
    assert "| mcq_questions | 1 | 0 | 1.000 |" in said
    assert '| true_false_questions: "not" in the sentence: False | 1/1 | 1.000 |' in said
    sent = [body["arrowhead"] for body in endpoint.asked if "choices" in body["arrowhead"]]
    options = {"evidence": True, "choices": ["TERT", "HLA-B", "HLA-DQA1"]}
    assert sent == ([options] if is_method else [])


@pytest.mark.shared_data
@pytest.mark.skipif(not DATA.exists(), reason="needs the evaluation data")
def test_all_published_rows_are_read() -> None:
    """Every key is a choice, every list a list."""
    assert {name: len(questions) for name, (_, questions) in load(DATA, "method").items()} == {
        "mcq_questions": 153,
        "rag_comparison_data": 100,
        "true_false_questions": 156,
    }
