"""Rules that read no graph, on rows in the form of the published sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.evals.kg.baselines import Score, baselines, longest_name, popular_items, read_identifiers, table

TRUE_FALSE = (
    {"text": "KLEEFSTRA SYNDROME 1 is NOT associated with Gene EHMT1", "label": "False"},
    {"text": "cystic fibrosis is a respiratory system disorder", "label": "True"},
    {"text": "Disease ontology identifier for Norrie disease is DOID:0060599", "label": "False"},
    {"text": "nothing is known of Notch", "label": "True"},
)


def question(answer: str, options: str) -> dict[str, str]:
    return {"correct_node": answer, "options_combined": options}


def test_true_or_false_is_told_by_one_word() -> None:
    """The word alone: "Notch" and "nothing" are other words, capitals do not matter."""
    found = baselines("true_false_questions", TRUE_FALSE)
    assert found == {"always True": Score(2, 4), '"not" in the sentence: False': Score(3, 4)}


def test_an_identifier_is_looked_up_where_its_name_is_known() -> None:
    """Other sentences, and names that the table lacks, are judged by the word."""
    table_of_names = {"norrie disease": frozenset({"DOID:0060844"})}
    rule = '"not" in the sentence: False, identifiers looked up'
    assert baselines("true_false_questions", TRUE_FALSE, table_of_names)[rule] == Score(4, 4)
    assert baselines("true_false_questions", TRUE_FALSE, {"other": frozenset({"DOID:1"})})[rule] == Score(3, 4)


def test_the_own_answer_does_not_count_towards_its_popularity() -> None:
    """Without it, B has been right as often as never."""
    rows = [question("A", "B, A"), question("A", "C, A"), question("B", "A, B")]
    assert baselines("mcq_questions", rows) == {
        "most frequent answer of the other questions": Score(1, 3),
        "first choice of the list": Score(0, 3),
    }


def test_yes_is_right_wherever_it_may_be_said() -> None:
    """All yes-or-no questions of the published set are about edges that exist."""
    rows = [
        {"question": "What is the GWAS p-value for asthma and RORA?", "gwas_pvalue": "5e-08"},
        {"question": "What is the GWAS p-value for asthma and ESR2?", "gwas_pvalue": "5e-08"},
        {"question": "Is asthma associated with RORA?", "gwas_pvalue": "2e-37"},
    ]
    assert list(baselines("rag_comparison_data", rows).values()) == [Score(1, 3), Score(2, 3)]


def test_items_are_guessed_from_the_other_answers() -> None:
    """As many as the answer has; an item that only the own answer holds cannot be guessed."""
    assert popular_items([["a", "b"], ["a", "c"], ["a"]]) == Score(3, 5)
    assert popular_items([["a"]]) == Score(0, 1)


def test_lists_of_two_diseases_are_counted_by_their_kind() -> None:
    """Genes are not guessed from places in the body."""
    rows = [
        {"text": f"What are the {kind} that are commonly associated with both x and y?", "central_nodes": nodes}
        for kind, nodes in (("Anatomy", "['skull']"), ("Anatomy", "['skull', 'eye']"), ("Genes", "['TERT']"))
    ]
    assert baselines("two_disease_entity_prompts", rows) == {
        "most frequent Anatomy of the other questions": Score(2, 3),
        "most frequent Genes of the other questions": Score(0, 1),
    }


def test_a_list_that_is_none_is_an_error() -> None:
    """A set of another form must not give a number."""
    rows = [{"Compounds": "'x'", "Diseases": "[]"}]
    with pytest.raises(ValueError, match="no list"):
        baselines("single_disease_entity_prompts", rows)


def test_the_longest_name_stands_as_words(tmp_path: Path) -> None:
    """Not within another word; several identifiers of one name are kept."""
    path = tmp_path / "names.csv"
    path.write_text("disease_name,disease_id\nObesity,DOID:9970\nobesity,DOID:1\nmorbid obesity,DOID:11981\n")
    known = read_identifiers(path)
    assert known["obesity"] == {"DOID:9970", "DOID:1"}
    names = sorted(known, key=len, reverse=True)
    assert longest_name("LIRAGLUTIDE TREATS MORBID OBESITY", names) == "morbid obesity"
    assert longest_name("obesitya", names) == ""
    rows = [{"text": "Liraglutide treats obesity", "node_hits": "obesity"}]
    assert baselines("dataset_for_entity_retrieval_accuracy_analysis", rows, known) == {
        "most frequent disease of the other questions": Score(0, 1),
        "longest name of the vocabulary in the text": Score(1, 1),
    }


def test_an_unknown_set_has_no_baseline() -> None:
    """Nothing rather than a guess at its form."""
    assert baselines("other", [{"text": "?"}]) == {}


def test_no_question_is_no_division_by_zero() -> None:
    """An empty file gives a table with zeros."""
    assert table({"mcq": baselines("mcq_questions", [])})[-1] == "| mcq | first choice of the list | 0/0 = 0.000 |"
