"""Sentences that are turned into questions of yes or no, and questions about names."""

from __future__ import annotations

import random

import pytest

from scripts.training.tasks.turned_questions import (
    asks_of_name,
    opposite_of,
    reworded,
    statement_of,
    unusual_words,
    whether,
)


@pytest.mark.parametrize(
    ("sentence", "asked", "denied"),
    [
        (
            "Alpers disease is inherited in a dominant manner.",
            "Is alpers disease inherited in a dominant manner?",
            "Alpers disease is not inherited in a dominant manner.",
        ),
        ("SCN5A has been linked to the syndrome.", "Has SCN5A been linked to the syndrome?",
         "SCN5A has not been linked to the syndrome."),
        ("MiR-21 inhibits PTEN in these cells.", "Does miR-21 inhibit PTEN in these cells?",
         "MiR-21 does not inhibit PTEN in these cells."),
    ],
)  # fmt: skip
def test_a_sentence_becomes_a_question_and_its_negation(sentence: str, asked: str, denied: str) -> None:
    one = statement_of(sentence)

    assert one is not None and one.asked == asked
    assert one.said(denied=True) == denied and one.said(denied=False) == sentence


def test_a_sentence_that_is_denied_asks_without_the_negation() -> None:
    one = statement_of("Enlimomab is not an effective treatment for stroke.")

    assert one is not None and one.denied
    assert one.asked == "Is enlimomab an effective treatment for stroke?"


@pytest.mark.parametrize("sentence", ["We found that it is so in the liver.", "It is inherited in a dominant manner."])
def test_a_sentence_about_something_before_it_is_left_out(sentence: str) -> None:
    assert statement_of(sentence) is None


def test_opposites_are_whole_words() -> None:
    draw = random.Random(1)

    assert opposite_of("Levels were increased.", draw) == "Levels were decreased."
    assert opposite_of("Unsafety was seen.", draw) == ""


@pytest.mark.parametrize(
    ("sentence", "asked"),
    [
        ("CONCLUSION: Panitumumab did not improve survival.", "Did panitumumab improve survival?"),
        ("Lubeluzole failed to reduce mortality after stroke.", "Did lubeluzole reduce mortality after stroke?"),
        ("There was no association between coffee and gout.", "Was there association between coffee and gout?"),
        ("These results suggest that Miracidia do not survive heat.", "Do miracidia survive heat?"),
    ],
)
def test_denials_of_every_form_ask_without_the_negation(sentence: str, asked: str) -> None:
    one = statement_of(sentence)

    assert one is not None and one.denied and one.asked == asked


@pytest.mark.parametrize(
    ("sentence", "asked"),
    [
        ("Losartan reduced blood pressure in mice.", "Did losartan reduce blood pressure in mice?"),
        ("In conclusion, BRD4 regulates transcription of MYC.", "Does BRD4 regulate transcription of MYC?"),
    ],
)
def test_verbs_ask_in_their_tense(sentence: str, asked: str) -> None:
    one = statement_of(sentence)

    assert one is not None and one.asked == asked and not one.denied


def test_a_participle_is_no_verb() -> None:
    assert statement_of("The genomes produced by the second step of all.") is None


def test_rewording_keeps_a_denial_whole_and_its_subject() -> None:
    one = statement_of("Aspirin is not associated with bleeding in the young.")
    assert one is not None

    for seed in range(20):
        other = reworded(one, random.Random(seed))
        assert other.subject == "Aspirin" and other.denied and other.rest.endswith("in the young")


def test_a_question_has_several_forms() -> None:
    one = statement_of("Aspirin is associated with bleeding.")
    assert one is not None
    forms = {whether(one, random.Random(seed)) for seed in range(60)}

    assert (
        "Is aspirin associated with bleeding?" in forms and "Aspirin is associated with bleeding, yes or no?" in forms
    )


@pytest.mark.parametrize(
    ("question", "name", "is_one_of", "asked"),
    [
        ("What is the target of adalimumab?", "TNF", False, "Is TNF the target of adalimumab?"),
        ("What causes Japanese Spotted Fever?", "R. japonica", False, "Does R. japonica cause Japanese Spotted Fever?"),
        ("Which gene is mutated in Canavan disease?", "ASPA", False, "Is ASPA mutated in Canavan disease?"),
        ("Which cancer is the BCG vaccine used for?", "gout", False, "Is the BCG vaccine used for gout?"),
        ("List features of the WHIM syndrome.", "warts", True, "Is warts one of the features of the WHIM syndrome?"),
        ("Pegloticase is used for which disease?", "gout", False, "Is pegloticase used for gout?"),
    ],
)
def test_a_question_about_names_asks_whether_it_is_one(question: str, name: str, is_one_of: bool, asked: str) -> None:
    assert asked in list(asks_of_name(question, name, is_one_of=is_one_of))


def test_unusual_words_are_those_of_no_english_list_in_any_form() -> None:
    text = "Does ropivacaine prevent falls and pains in treated adults, as studies of macrosomia carried out show?"
    assert unusual_words(text) == ("ropivacaine", "macrosomia")
