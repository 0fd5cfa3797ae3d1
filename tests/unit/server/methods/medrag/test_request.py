"""How a medical question and the letter of its answer are read."""

from __future__ import annotations

import pytest

from server.methods.medrag.request import MedRagOptions, ParsedQuestion, read_question
from server.methods.shared.sentences import numbers_in, renumbered

ASKED = ParsedQuestion("Which?", "multiple_choice", ("Aspirin", "Vitamin K", "Naloxone"))


@pytest.mark.parametrize(
    ("written", "letter"),
    [
        (" B", "B"),
        ("(B)", "B"),
        ("**B**", "B"),
        ("B. Vitamin K", "B"),
        ("vitamin k.", "B"),
        ("A drug that", ""),
        ("D", ""),
        ("BC", ""),
        ("", ""),
        ("I cannot tell", ""),
    ],
)
def test_only_a_letter_that_is_no_word_counts(written: str, letter: str) -> None:
    """An engine without grammars may write anything."""
    assert ASKED.letter_in(written) == letter


def test_choices_are_no_part_of_the_query() -> None:
    """Whether the question lists them or they come beside it."""
    listed = read_question("A man bleeds.\nWhich drug helps?\nA. Aspirin\nB. Vitamin K", MedRagOptions())
    assert (listed.stem, listed.choices) == ("A man bleeds. Which drug helps?", ("Aspirin", "Vitamin K"))
    beside = read_question("Which drug helps?", MedRagOptions(choices=("x", "y")))
    assert (beside.stem, beside.letters) == ("Which drug helps?", "AB")


def test_citations_are_read_in_all_their_forms() -> None:
    """Spans that are no citation are none."""
    assert numbers_in("a [2], b [1, 3], c [4-6] [9–10]; [x] [2020-9999] [0]") == (2, 1, 3, 4, 5, 6, 9, 10, 0)
    assert renumbered("a [1], b [2, 3] and c [9].", {1: 7, 3: 8}) == "a [7], b [8] and c."


def test_a_choice_that_stands_twice_keeps_the_letters_after_it() -> None:
    """Published questions repeat a choice now and then; the key counts both."""
    asked = read_question("Which?\nA. 24 hours\nB. 24 hours\nC. 72 hours\nD. 96 hours", MedRagOptions())

    assert asked.letters == "ABCD"
    assert asked.shown("C") == "C. 72 hours"
