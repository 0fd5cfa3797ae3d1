"""The gate quotes the most relevant sentences, gives yes or no at its bar, and knows when an answer was taken out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from models.verifiers.base import Judgement, OperatingPoints, Pair
from scripts.verifier.gate import Asked, by_cosine, outcomes, with_nothing

POINTS = OperatingPoints(quote=0.3, answer=0.5, verdict=0.7, label=0.2, screen=0.1)
ROW: dict[str, Any] = {"must": ["niacin"], "not_in_data": False, "yes_no": None}
LINES = ("Pellagra. It is treated with niacin.", "Pellagra. It begins in spring.", "Scurvy. It begins late.")
JUDGED = {LINES[0]: Judgement(0.9, 0.8, 0.1), LINES[1]: Judgement(0.4, 0.0, 0.95), LINES[2]: Judgement(0.2, 0.0, 1.0)}


class Known:
    """Judges by the evidence alone."""

    def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        return [JUDGED[pair.evidence] for pair in pairs]


def asked(**changes: Any) -> Asked:
    pairs = tuple(Pair("How is pellagra treated?", line) for line in reversed(LINES))
    return Asked({**ROW, **changes}, "How is pellagra treated?", pairs, (0.9, 0.5, 0.1))


def test_sentences_are_quoted_by_their_relevance() -> None:
    (found,) = outcomes([asked()], Known(), POINTS)
    assert found.best == LINES
    assert found.relevance == pytest.approx(0.9)
    assert found.asked.is_right(found.best[:1])
    assert not found.asked.is_right(by_cosine(found.asked, 1))


def test_yes_or_no_is_the_strongest_of_the_sentences_that_may_be_quoted() -> None:
    """The third contradicts more, but is not relevant enough."""
    assert outcomes([asked()], Known(), POINTS)[0].verdict == "yes"
    higher = OperatingPoints(quote=0.3, answer=0.5, verdict=0.99, label=0.2, screen=0.1)
    assert outcomes([asked()], Known(), higher)[0].verdict == ""


def test_passages_that_answer_are_taken_out_whole() -> None:
    (left,) = with_nothing([asked()])
    assert [pair.evidence for pair in left.pairs] == [LINES[2]]
    assert not left.is_answerable


def test_a_question_that_nothing_answers_stays_as_it_is() -> None:
    nothing = asked(not_in_data=True)
    assert with_nothing([nothing, asked(must=[], yes_no="yes")]) == [nothing]
