"""What keeps an answer from being whole is told below it."""

from __future__ import annotations

import pytest

from models.decoding.types import LoopFinish
from models.types import REPETITION
from server.methods.shared.outcomes import notice, why_cut


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("length", "it reached its limit of length"),
        ("call_limit", "it had used all its calls"),
        ("timeout", "it ran out of time"),
        ("abort", "it was stopped"),
    ],
)
def test_a_limit_is_named(finish: LoopFinish, reason: str) -> None:
    assert why_cut(finish, None) == f"The answer is not complete: {reason}."


def test_repetition_is_named_whatever_limit_it_met() -> None:
    assert why_cut("length", REPETITION) == "The answer is not complete: it repeated itself."


def test_an_answer_that_ends_by_itself_is_not_cut() -> None:
    assert why_cut("stop", None) == ""


def test_a_note_stands_below_an_answer_or_alone() -> None:
    assert notice("A reason.", "Text").text == "\n\n(A reason.)"
    assert notice("A reason.", " ").text == "A reason." and notice("A reason.", "").is_ours
