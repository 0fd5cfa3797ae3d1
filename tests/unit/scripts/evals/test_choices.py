"""Which choice a reply names: strictly, and as MIRAGE reads it."""

from __future__ import annotations

import pytest

from scripts.evals.harness.choices import mirage_letter, read_choice

OPTIONS = {
    "A": "Disclose the error to the patient",
    "B": "Tell the attending that he cannot fail to disclose this mistake",
    "C": "C cells of the thyroid",
    "D": "Refuse to dictate the report",
}
CLOSED = {"A": "yes", "B": "no", "C": "maybe"}

READ = [
    # Published shape: JSON with thoughts before the letter.
    ('{"step_by_step_thinking": "The answer is A? No.", "answer_choice": "B"}', "B"),
    ('{"step_by_step_thinking": "so \\"A\\"", "answer_choice": "B. Tell the attending"}', "B"),
    ("{'answer': 'D'}", "D"),
    ('```json\n{"answer_choice": "C"}\n```', "C"),
    ('{{"answer": "B"}}', "B"),
    ('{"answer": "refuse to dictate the report."}', "D"),
    ('{"answer_choice": "B', "B"),
    ('{"answer_choice": "None of the above"}', None),
    ('{"answer_choice": null}', None),
    ('{"answer_choice": "A or B"}', None),
    ('{"answer_choice": ""}', None),
    # A letter alone.
    ("B", "B"),
    (" (b) ", "B"),
    ("b.", "B"),
    ("**B**", "B"),
    ("B.", "B"),
    ("B)", "B"),
    ("[B]", "B"),
    ("$\\boxed{B}$", "B"),
    ("B. Tell the attending that he cannot fail to disclose this mistake", "B"),
    ("B: Tell the attending", "B"),
    ("B - Tell the attending", "B"),
    ("B\n\nBecause the report must hold it.", "B"),
    ("E", None),
    ("A, B", None),
    ("A and C", None),
    ("B. Refuse to dictate the report", None),
    ("B/C", None),
    # A statement.
    ("The answer is (B).", "B"),
    ("The answer is B because the report must hold it.", "B"),
    ("the correct answer is b.", "B"),
    ("Answer: B", "B"),
    ("Answer:B", "B"),
    ("Final answer:\n\n**B. Tell the attending**", "B"),
    ("### Answer\nThe best answer to this question is option D.", "D"),
    ("Therefore, option B is correct.", "B"),
    ("So (D) is the correct choice.", "D"),
    ("B is the best answer here, all told.", "B"),
    ("One may think that the answer is A. But the answer is B.", "B"),
    ("The answer is A.\nSo the answer is not B.", "A"),
    ("The answer is refuse to dictate the report.", "D"),
    ("The answer is: C cells of the thyroid", "C"),
    ("The answer is C cells of the thyroid", "C"),
    ("The final answer is \\(\\boxed{\\text{B}}\\).", "B"),
    ("<think>The answer is A.</think>The answer is B.", "B"),
    ("The answer is B.\n\nQuestion: Another one?\nAnswer: C", "B"),
    ("The answer is A or B.", None),
    ("The answer is (A) and (C).", None),
    ("The answer is E.", None),
    ("The answer is A 45-year-old man.", None),
    ("The answer is none of the above.", None),
    ("The answer cannot be determined.", None),
    ("Option B is incorrect.", None),
    ("Option B is not correct.", None),
    # A choice's text alone.
    ("Refuse to dictate the report", "D"),
    ('"disclose the error  to the patient".', "A"),
    ("Disclose the error to the patient. It is the law.", "A"),
    # Nothing that can be relied on.
    ("", None),
    ("A 45-year-old man tells his doctor about it.", None),
    ("C cells make calcitonin.", None),
    ("I do not know.", None),
    ("none of these", None),
    ("A. Disclose the error to the patient\nB. Tell the attending\nC. C cells\nD. Refuse", None),
    ("Disclose the error to the patient or refuse to dictate the report", None),
]


@pytest.mark.parametrize(("reply", "letter"), READ)
def test_a_reply_says_one_choice_or_is_unanswered(reply: str, letter: str | None) -> None:
    """Several choices, one that is not there and none at all are no answer."""
    assert read_choice(reply, OPTIONS) == letter


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("Yes", "A"),
        ("No, there is no such evidence.", "B"),
        ("maybe.", "C"),
        ("The answer is yes.", "A"),
        ("The answer is no evidence.", None),
        ("Yes, there are.\n\nNo.", None),
        ("Yesterday", None),
    ],
)
def test_a_choice_of_one_word_may_begin_the_reply(reply: str, letter: str | None) -> None:
    """As long as the first and the last line do not contradict each other."""
    assert read_choice(reply, CLOSED) == letter


def test_two_choices_of_one_text_are_told_apart_by_their_letter_only() -> None:
    """Published questions have such choices."""
    options = {"A": "36 hours", "B": "36 hours", "C": "72 hours"}
    assert read_choice("36 hours", options) is None
    assert read_choice("B. 36 hours", options) == "B"


def test_letters_count_only_where_the_question_shows_them() -> None:
    """A reply of one letter to a question without letters says nothing."""
    options = {"A": "HLA-B", "B": "TERT"}
    assert read_choice("B", options, lettered=False) is None
    assert read_choice("The answer is TERT.", options, lettered=False) == "B"


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ('{"step_by_step_thinking": "x", "answer_choice": "C"}', "C"),
        ('{"step_by_step_thinking": "option B", "answer_choice": "D. Refuse"}', "D"),
        ('{"answer_choice": "None of the above"}', "A"),
        ('{"answer_choice": "B or C"}', "B"),
        ('{"answer_choice": "B and C"}', "B"),
        ('{"answer_choice": "B/C"}', "B"),
        ('{"answer_choice": "B, C"}', "B"),
        ("Not option A; the answer: B", "A"),
        ("The answer: B", "B"),
        ("The answer is B", "A"),
        ("D", "D"),
        ("D: Refuse", "D"),
        ("b", "A"),
        ("", "A"),
    ],
)
def test_mirage_reads_what_it_cannot_read_as_a(reply: str, letter: str) -> None:
    """Its order of patterns: what the text begins with, "option X", ": X", "X."."""
    assert mirage_letter(reply) == letter
