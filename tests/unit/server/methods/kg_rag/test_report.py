"""Which statements an answer cites, and which p-value stands beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from graph_doubles import GENES, PSORIASIS, STATEMENTS, make_statement

from retrieval.graph.context.select import Context
from server.methods.kg_rag.prompts import ParsedQuestion
from server.methods.kg_rag.report import cited, p_value

IL23R = STATEMENTS[0]
QUESTION = "Is psoriasis associated with IL23R?"


def context(named: int) -> Context:
    statements = STATEMENTS[:5]
    return Context(statements, (0.5,) * 5, "text", 1, 0, (PSORIASIS,), named)


def with_evidence(evidence: Mapping[str, Any]) -> float | None:
    return p_value(make_statement(PSORIASIS, "ASSOCIATES_DaG", GENES["IL23R"], evidence=evidence))


@pytest.mark.parametrize(
    ("evidence", "value"),
    [
        ({"gwas_pvalue": 2e-13}, 2e-13),
        ({"gwas_pvalue": [1e-08, 3e-20], "items": [{"gwas_pvalue": 1e-08}]}, 3e-20),
        ({"items": [[{"gwas_pvalue": 1e-08}], [{"gwas_pvalue": 2e-09}]]}, 2e-09),
        ({"items": [{"channel": "experiments", "evidence": "p-value = 8e-15", "source": "DistiLD"}]}, 8e-15),
        ({"fisher": "0.004"}, 0.004),
        ({"gwas_pvalue": "NA", "evidence": "CURATED"}, None),
    ],
)
def test_the_smallest_p_value_is_found_wherever_the_evidence_has_it(
    evidence: Mapping[str, Any], value: float | None
) -> None:
    """An edge of several files has lists where they differ."""
    assert with_evidence(evidence) == value


@pytest.mark.parametrize("answer", ["Yes.", "Yes, it is.", "**No**", "2e-13", "The p-value is 2e-13."])
def test_an_answer_that_names_nothing_rests_on_what_the_question_names(answer: str) -> None:
    """Its record would else have no source at all."""
    assert cited(context(named=1), ParsedQuestion(QUESTION, "general"), answer) == (IL23R,)


def test_a_question_that_names_no_statement_gives_a_bare_answer_none() -> None:
    """ "Yes" alone does not tell which."""
    assert cited(context(named=0), ParsedQuestion("Is psoriasis hereditary?", "general"), "Yes.") == ()


def test_a_name_in_the_answer_goes_before_those_of_the_question() -> None:
    """Who answers "Yes, but TNIP1" means TNIP1."""
    found = cited(context(named=1), ParsedQuestion(QUESTION, "general"), "Yes, and TNIP1 is.")
    assert [statement.target.name for statement in found] == ["TNIP1"]
