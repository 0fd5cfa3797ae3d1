"""Choices that a question lists, in the forms in which people and exams write them."""

from __future__ import annotations

import pytest

from server.methods.shared.choices import asks_yes_or_no, listed_choices


@pytest.mark.parametrize(
    ("question", "choices", "stem"),
    [
        ("Which?\nA. x\nB. y", ("x", "y"), "Which?\n"),
        ("Which?\n1. asthma\n2. gout\n3. pain", ("asthma", "gout", "pain"), "Which?\n"),
        ("Which?\n1) asthma\n2) gout\n", ("asthma", "gout"), "Which?\n"),
        ("Which drug: (a) aspirin (b) ibuprofen, or (c) codeine?", ("aspirin", "ibuprofen", "codeine"), "Which drug: "),
        (
            "A. baumannii resists which?\nA. colistin\nB. ampicillin",
            ("colistin", "ampicillin"),
            "A. baumannii resists which?\n",
        ),
        ("Which? Options are: 1,25-dihydroxyvitamin D, PTH", ("1,25-dihydroxyvitamin D", "PTH"), "Which? "),
        ("Which? Options: a,b,c", ("a", "b", "c"), "Which? "),
        ("Which? (1) fever, chills (2) cough", ("fever, chills", "cough"), "Which? "),
        ("Which? 1. fever, chills 2. cough", ("fever, chills", "cough"), "Which? "),
        ("Which? a) aspirin b) heparin, low dose", ("aspirin", "heparin, low dose"), "Which? "),
        ("Choose one. A. fever B. chills, rigors C. cough", ("fever", "chills, rigors", "cough"), "Choose one. "),
        ("Which? Choices: 1. fever, chills 2. cough", ("fever, chills", "cough"), "Which? "),
        ('Which? Options are: "fever, chills", "cough"', ("fever, chills", "cough"), "Which? "),
        ("1. Which drug?\nA. x\nB. y", ("x", "y"), "1. Which drug?\n"),
    ],
)
def test_choices_are_read(question: str, choices: tuple[str, ...], stem: str) -> None:
    """Lettered or numbered lines, in one line, or after a heading; a comma may be part of a name or a choice."""
    assert listed_choices(question) == (choices, stem)


@pytest.mark.parametrize(
    "question",
    [
        "Findings:\n1. fever\n2. cough\nWhat is it?",
        "1. fever\n\nSome text.\n2. cough",
        "A 30-year-old (a) man",
        "What are (b) and (c)?",
        "Is it (a) or not?",
        "What does vitamin D do in (a) bone and (b) gut?",
        "It was E. coli, not A. baumannii or B. cereus.",
        "Which strains of A. baumannii and B. cereus resist?",
    ],
)
def test_what_only_looks_like_choices_is_left(question: str) -> None:
    """Findings that are numbered, a single letter, letters that do not begin with the first."""
    assert listed_choices(question) == ((), question)


@pytest.mark.parametrize(
    "question",
    [
        "Is gout painful?",
        "A man has a swollen toe. Could it be gout?",
        "Is there any role of E. coli in colorectal cancer?",
        "Is P. gingivalis found in the brain?",
        "Does rituximab vs. placebo help in lupus?",
        "Which drug reverses heparin, and does it cross the placenta?",
        "Glucoraphanin helps against obesity, yes or no?",
        "Is the dose 2.5 mg?",
    ],
)
def test_a_question_of_yes_or_no_is_one(question: str) -> None:
    assert asks_yes_or_no(question)


@pytest.mark.parametrize(
    "question",
    [
        "Which drug reverses heparin?",
        "What drug, used against gout, is an inhibitor of xanthine oxidase?",
        "Can you please summarize the function of CDK9?",
        "Is it gout? What else swells a toe?",
        "Gout is painful.",
    ],
)
def test_what_yes_or_no_would_not_answer_is_none(question: str) -> None:
    """A question for more, a request, and an earlier sentence."""
    assert not asks_yes_or_no(question)
