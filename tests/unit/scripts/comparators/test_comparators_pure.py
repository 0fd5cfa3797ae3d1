"""Questions, measures and the reading of edges of the comparison."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import pytest
from graph_doubles import GENES, PSORIASIS, make_node, make_statement

from scripts.evals.comparators.base import Fact, Retrieved, fact_of_line, within
from scripts.evals.comparators.graph import as_open, write_edges
from scripts.evals.comparators.measures import Asked, disease_table, record_of, rows_of_table, table, wilson
from scripts.evals.comparators.questions import Question, made, numbers_in, published, slipped

EDGE = make_statement(
    PSORIASIS, "ASSOCIATES_DaG", GENES["IL23R"], provenance=("GWAS",), evidence={"gwas_pvalue": 2e-13}
)
QUESTION = Question(
    text="Is psoriasis associated with IL23R?",
    perturbed="Is psoriasis associated with il23r?",
    disease="psoriasis",
    gene="IL23R",
    p_value=2e-13,
    sources=frozenset({"GWAS"}),
    has_edge=True,
    has_p_value=True,
)


def words(text: str) -> int:
    return len(text.split())


def record_for(found: Retrieved) -> tuple[bool, bool, bool, int]:
    record = record_of(Asked("set", "any", "original", QUESTION), found, 1.0, words)
    return record.edge, record.p_value, record.provenance, record.tokens


def test_a_published_question_knows_whether_its_edge_is_in_the_graph() -> None:
    """Whatever the case of the names; the key's p-value may be one of several."""
    row = {
        "disease_name": "Psoriasis",
        "gene_name": "il23r",
        "gwas_pvalue": "2e-13",
        "question": QUESTION.text,
        "question_perturbed": QUESTION.perturbed,
    }
    (found,) = published([row], [EDGE])
    assert (found.has_edge, found.has_p_value, found.sources) == (True, True, frozenset({"GWAS"}))
    (other,) = published([{**row, "gene_name": "TERT", "gwas_pvalue": "1e-9"}], [EDGE])
    assert (other.has_edge, other.has_p_value) == (False, False)


def test_questions_are_made_of_edges_with_one_p_value() -> None:
    """Not of edges between other kinds, nor of those with several values."""
    several = make_statement(PSORIASIS, "ASSOCIATES_DaG", GENES["TNIP1"], evidence={"gwas_pvalue": [1e-8, 2e-9]})
    compound = make_statement(make_node("Compound", "X"), "TREATS_CtD", PSORIASIS, evidence={"gwas_pvalue": 1e-9})
    (question,) = made([EDGE, several, compound], 5)
    assert (question.text, question.perturbed) == (QUESTION.text, QUESTION.perturbed)
    assert question.has_edge and question.has_p_value


def test_a_slip_changes_one_word_of_the_name() -> None:
    """The question's own words stay; a name without a long word has no such variant."""
    assert slipped(QUESTION.text, "psoriasis") == "Is psoraisis associated with IL23R?"
    assert slipped("Is gout associated with ABCG2?", "gout") == ""


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ('{"gwas_pvalue":2e-37,"pmid":"20190752"}', {2e-37, 20190752.0}),
        ("p-value = 8e-15)", {8e-15}),
        ("rs1135 and IL23R and DOID:12", {12.0}),
    ],
)
def test_numbers_of_a_text_are_not_those_within_names(text: str, numbers: set[float]) -> None:
    """A symbol's digits are no p-value."""
    assert numbers_in(text) == numbers


def test_an_edge_counts_where_one_fact_names_both_ends() -> None:
    """Two facts that name one end each do not make it."""
    fact = fact_of_line(EDGE)
    assert record_for(Retrieved(fact.text, (fact,))) == (True, True, True, words(fact.text))
    apart = (Fact(frozenset({"psoriasis"}), "psoriasis", ""), Fact(frozenset({"il23r"}), "IL23R", ""))
    assert record_for(Retrieved("psoriasis IL23R", apart)) == (False, False, False, 2)
    assert record_for(Retrieved("")) == (False, False, False, 0)


def test_a_fact_that_no_model_would_read_is_an_error() -> None:
    """A retriever must not be credited for what it left out of its context."""
    with pytest.raises(ValueError, match="not in the context"):
        record_for(Retrieved("psoriasis", (fact_of_line(EDGE),)))


def test_wilsons_interval_is_that_of_the_textbook() -> None:
    """97 of 100: 0.915 to 0.990; all of ten does not mean certainty."""
    share = wilson(97, 100)
    assert (round(share.low, 3), round(share.high, 3)) == (0.915, 0.990)
    assert math.isclose(wilson(10, 10).low, 0.722, abs_tol=5e-4) and math.isclose(wilson(10, 10).high, 1.0)
    assert (wilson(0, 0).low, wilson(0, 0).high, wilson(0, 0).value) == (0.0, 1.0, 0.0)


def test_a_table_counts_tokens_of_the_questions_as_they_are() -> None:
    """What finds nothing in a variant is not the cheaper for it."""
    fact = fact_of_line(EDGE)
    records = [
        record_of(Asked("set", "exact", "original", QUESTION), Retrieved(fact.text, (fact,)), 2.0, words),
        record_of(Asked("set", "exact", "perturbed", QUESTION), Retrieved(""), 1.0, words),
    ]
    (row,) = rows_of_table(records)
    assert (row.edge["original"].number, row.edge["perturbed"].number, row.edge["slipped"].total) == (1, 0, 0)
    assert (row.tokens_mean, row.ms) == (words(fact.text), 2.0)
    assert table([row])[-1].startswith("| exact | 1/1 = 1.000 (0.21-1.00) | 0/1 = 0.000 (0.00-0.79) | 0/0")


def test_a_wrong_disease_is_seen_though_the_edge_was_found() -> None:
    """The gene alone may bring it; ways that take no node have no share."""
    fact = fact_of_line(EDGE)
    records = [
        record_of(Asked("set", name, "original", QUESTION), Retrieved(fact.text, (fact,), nodes=nodes), 1.0, words)
        for name, nodes in (("right", ("Psoriasis", "IL23R")), ("wrong", ("IL23R",)), ("none", None))
    ]
    rows = rows_of_table(records)
    assert [(row.edge["original"].number, row.disease["original"][:2]) for row in rows] == [
        (1, (1, 1)),
        (1, (0, 1)),
        (1, (0, 0)),
    ]
    assert [line.split(" | ")[1] for line in disease_table(rows)[2:]] == ["right", "wrong"]


def test_lines_are_taken_up_to_the_budget() -> None:
    """By the count of the whole text."""
    lines = ["a b c", "d e", "f"]
    assert [within(lines, budget, words) for budget in (0, 2, 3, 5, 6, 99)] == [0, 0, 1, 2, 3, 3]


def test_recovered_edges_become_open_ones() -> None:
    """The disease is the subject, whichever end it was; what has no disease is left out."""
    row = {"predicate": "treats", "provenance": "None", "evidence": {"phase": 4}, "disease": "asthma"}
    drug = {**row, "source_type": "Compound", "source": "Salbutamol", "target_type": "Disease", "target": "asthma"}
    gene = {**row, "source_type": "Gene", "source": "A", "target_type": "Gene", "target": "B"}
    open_row = {"disease": "x", "provenance": "GWAS", "doid": "DOID:1"}
    assert list(as_open([drug, gene, open_row], {"asthma": "DOID:2841"})) == [
        {
            "predicate": "treats",
            "provenance": "",
            "evidence": {"phase": 4},
            "disease": "asthma",
            "target_type": "Compound",
            "target": "Salbutamol",
            "doid": "DOID:2841",
        },
        open_row,
    ]


def test_the_same_edges_are_the_same_file(tmp_path: Path) -> None:
    """By its digest a built graph is known again."""
    for name in ("a", "b"):
        write_edges(tmp_path / name, [{"b": 1, "a": 2}])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert gzip.decompress((tmp_path / "a").read_bytes()) == b'{"a": 2, "b": 1}\n'
