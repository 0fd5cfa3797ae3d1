"""Questions become claims, and edits by rule say something else."""

from __future__ import annotations

import random

import pytest

from scripts.verifier.claims import (
    claim_of,
    denied,
    negated,
    shape,
    with_more,
    with_other_name,
    with_other_number,
    with_other_unit,
    with_roles_exchanged,
)

DRAW = random.Random(1)


@pytest.mark.parametrize(
    ("question", "claim"),
    [
        ("Does curare block sodium responses in Aplysia?", "Curare blocks sodium responses in Aplysia."),
        ("Do estrogens shrink the thymus?", ""),
        ("Can bleomycin cause fibrosis?", "Bleomycin can cause fibrosis."),
        ("Did phenylbutazone raise 5-HT?", "Phenylbutazone did raise 5-HT."),
        ("Is herpetic whitlow caused by bacteria?", "Herpetic whitlow is caused by bacteria."),
        ("Are circRNAs a marker of cancer?", "CircRNAs are a marker of cancer."),
        ("Which gene is mutated in Krabbe disease?", ""),
        ("Is there a cure?", ""),
    ],
)
def test_a_question_of_yes_or_no_becomes_its_claim(question: str, claim: str) -> None:
    """Or nothing, where its parts are not told apart."""
    assert claim_of(question) == claim


def test_a_number_is_changed_and_nothing_else() -> None:
    for seed in range(20):
        edited = with_other_number("The dose of IL2 is 4.4 mg/kg.", random.Random(seed))
        before, number, after = edited.partition(edited.split()[5])
        assert (before, after) == ("The dose of IL2 is ", " mg/kg.")
        assert float(number) != 4.4


def test_a_text_without_a_number_a_unit_or_an_auxiliary_is_not_edited() -> None:
    text = "Signs of GM1 gangliosidosis include ataxia."
    assert with_other_number(text, DRAW) == with_other_unit(text, DRAW) == negated(text, DRAW) == ""


def test_a_unit_is_exchanged_behind_its_number() -> None:
    assert with_other_unit("It lasts 5 days.", DRAW) in ("It lasts 5 weeks.", "It lasts 5 hours.")


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("Milk is suitable.", "Milk is not suitable."),
        ("Milk is not suitable.", "Milk is suitable."),
        ("It does not help.", "It does help."),
        ("It has been shown.", "It has not been shown."),
        ("It must not be given.", "It must be given."),
    ],
)
def test_a_negation_is_added_or_dropped(text: str, edited: str) -> None:
    assert negated(text, DRAW) == edited


def test_a_name_is_exchanged_for_one_of_its_kind() -> None:
    pool = {shape("ATP7A"): ["ATP7A", "CFTR"]}
    found = {with_other_name("Variants of ATP7A cause it.", pool, random.Random(seed)) for seed in range(8)}
    assert found == {"", "Variants of CFTR cause it."}


def test_a_claim_says_more_than_its_sentence() -> None:
    said = with_more("Milk is suitable for all children.", "Honey was found in four of the jars.")
    assert said == "Milk is suitable for all children, and was found in four of the jars."
    assert with_more("Four jars.", "Honey was found in four of the jars.") == ""


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("Dapsone inhibits GYPA in erythrocytes.", "GYPA inhibits dapsone in erythrocytes."),
        ("Fabry disease is caused by variants of GLA.", "Variants of GLA is caused by fabry disease."),
        ("Dapsone is associated with GYPA in erythrocytes.", ""),
        ("There is no cure of Fabry disease in children.", ""),
        ("Fourteen people were asked about their sleep.", ""),
    ],
)
def test_what_acts_and_what_it_acts_on_change_places(text: str, edited: str) -> None:
    """Or nothing, where both ways may hold."""
    assert with_roles_exchanged(text) == edited


def test_a_statement_is_denied_whole() -> None:
    assert denied("Dapsone inhibits GYPA in erythrocytes.", DRAW) == "Dapsone does not inhibit GYPA in erythrocytes."
    assert denied("Dapsone does not inhibit GYPA in cells.", DRAW) == "Dapsone inhibits GYPA in cells."
    assert denied("Four jars.", DRAW) == ""
