"""Keywords of a question without marks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from retrieval.lexical.question_keywords import Keyword, proposed_keywords, searched_keywords

COUNTS = {
    "vision transformer": 40,
    "vision": 50,
    "transformer": 60,
    "lesion": 20,
    "skin": 30,
    "skin lesion": 15,
    "cell": 900,
}


def counts(keywords: Sequence[str]) -> list[int]:
    return [COUNTS.get(keyword.lower(), 0) for keyword in keywords]


@pytest.mark.parametrize(
    ("question", "keywords"),
    [
        ("How does the vision transformer handle a skin lesion?", ["vision transformer", "skin lesion"]),
        ("What is the impact of SWR1 on the cell?", ["SWR1"]),
        ("Which effects does the study show?", ["effects", "study", "show"]),
        ("What does CAN1, EXO1 or zebrafish do?", ["CAN1", "EXO1", "zebrafish"]),
        ("What is it?", ["What", "is", "it"]),
    ],
)
def test_keywords_are_names_phrases_and_words_that_tell(question: str, keywords: list[str]) -> None:
    """Words that ask, and those of nearly every passage, only where there is nothing else."""
    found = proposed_keywords(question, counts, 1000)
    assert [one.text for one in found] == keywords and not any(one.fixed for one in found)


def test_a_long_question_keeps_its_rarest_words() -> None:
    """In the order of the question."""
    question = "Explain " + ", ".join(f"word{chr(97 + n)}" for n in range(20))
    assert len(proposed_keywords(question, lambda ones: [ord(one[-1]) for one in ones], 1000)) == 12


@pytest.mark.parametrize(
    ("query", "keywords"),
    [
        ("Does aspirin lower pain?", [Keyword("aspirin"), Keyword("lower"), Keyword("pain")]),
        ("#Does **aspirin** lower *chest pain*?", [Keyword("aspirin", fixed=True), Keyword("chest pain")]),
        ("#aspirin", [Keyword("aspirin")]),
    ],
)
def test_pes2_searches_for_what_is_marked_or_for_all_content_words(query: str, keywords: list[Keyword]) -> None:
    assert list(searched_keywords(query).keywords) == keywords
