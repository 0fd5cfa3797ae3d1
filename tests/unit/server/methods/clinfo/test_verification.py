"""Sentences are held against what they cite before any model is asked."""

from __future__ import annotations

import pytest

from server.methods.clinfo.judging import fault_of, sentences_of
from server.methods.clinfo.literature import Article, Section

ARTICLES = {
    1: Article(
        key="PMID:1", title="BRAF V600E", sections=(Section("", "Of 6425 patients, 22.9 % died (rs113488022)."),)
    ),
    2: Article(key="PMID:2", title="Other", sections=(Section("", "No number."),)),
}


def test_marks_stay_with_their_sentences() -> None:
    """Whether they stand before or behind the full stop."""
    text = "The first claim. [1] The second claim [2, 3]. The third claim is here.[4]"
    assert sentences_of(text) == ["The first claim [1].", "The second claim [2, 3].", "The third claim is here [4]."]
    assert sentences_of("Yes. [1]") == ["Yes [1]."] and sentences_of(" ") == []


@pytest.mark.parametrize(
    ("sentence", "fault"),
    [
        ("Of 6425 patients, 22.9 % died [1].", ""),
        ("rs113488022 is BRAF V600E [1].", ""),
        ("Of 6425 patients, 22.9 % died [2].", "6425 patients, 22.9 % stands in no article that it cites"),
        ("Half of 12,000 patients died [1].", "12,000 patients stands in no article"),
        ("Patients died [1, 7].", "it cites [7], which was not read"),
        ("Patients died.", "it cites no article"),
    ],
)
def test_numbers_and_identifiers_stand_in_what_is_cited(sentence: str, fault: str) -> None:
    found = fault_of(sentence, ARTICLES)
    assert found == "" if not fault else fault in found
