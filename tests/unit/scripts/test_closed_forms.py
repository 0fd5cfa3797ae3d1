"""How answers to closed questions are counted."""

from __future__ import annotations

import pytest

from scripts.evals.closed_forms import Tally, outcome


@pytest.mark.parametrize(
    ("gold", "reply", "expected"),
    [
        ("True", {"answer": "True", "abstained": False, "answer_in_list": True}, "right"),
        ("HLA-B", {"answer": "hla-b", "abstained": False, "answer_in_list": True}, "right"),
        ("True", {"answer": "False", "abstained": False, "answer_in_list": True}, "wrong"),
        ("True", {"answer": "unknown", "abstained": True, "answer_in_list": True}, "abstained"),
        ("none of these", {"answer": "none of these", "abstained": True, "answer_in_list": True}, "right"),
        ("True", {"answer": "Perhaps", "abstained": False, "answer_in_list": False}, "outside"),
        ("True", {"answer": "False"}, "wrong"),
    ],
)
def test_an_abstention_is_neither_right_nor_wrong(gold: str, reply: dict[str, object], expected: str) -> None:
    """Unless it is what the key wants; methods that tell nothing of it are right or wrong."""
    assert outcome(gold, reply) == expected


def test_shares_are_of_all_and_of_the_answered() -> None:
    """And of nothing they are numbers too."""
    tally = Tally()
    assert (tally.accuracy, tally.answered, tally.accuracy_answered) == (0.0, 1.0, 0.0)
    for answer, abstained in (("True", False), ("False", False), ("unknown", True), ("True", False)):
        tally.add("True", {"answer": answer, "abstained": abstained, "answer_in_list": True})
    assert (tally.accuracy, tally.answered) == (0.5, 0.75)
    assert tally.accuracy_answered == pytest.approx(2 / 3)
