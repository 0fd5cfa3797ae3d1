"""On which sentence a choice rests."""

from __future__ import annotations

import pytest

from server.methods.medrag.report import support_of
from server.methods.shared.extractive import Source

STEM = "Which enzyme does warfarin inhibit?"
CHOICES = ("Cyclooxygenase", "VKORC1", "Thrombin")
WARFARIN = Source("Warfarin", "It is taken by mouth. Warfarin inhibits the enzyme VKORC1.")
ASPIRIN = Source("Aspirin", "Aspirin acetylates cyclooxygenase of platelets.")


@pytest.mark.parametrize(("place", "holds"), [(0, False), (1, True), (2, False)])
def test_the_choice_that_a_sentence_names_for_the_question_is_supported(place: int, holds: bool) -> None:
    """One that is named elsewhere, or nowhere, is not."""
    support = support_of(STEM, CHOICES, place, [ASPIRIN, WARFARIN])
    assert support.holds == holds
    if holds:
        assert support.sentence is not None and support.sentence.source == 1


@pytest.mark.parametrize(
    "text", ["Warfarin does not inhibit the enzyme VKORC1.", "Warfarin inhibits thrombin or the enzyme VKORC1.", ""]
)
def test_a_denial_or_a_sentence_on_two_choices_supports_none(text: str) -> None:
    """It could mean either."""
    assert not support_of(STEM, CHOICES, 1, [Source("", text)]).holds


def test_a_long_case_is_asked_about_in_its_last_sentences() -> None:
    """Its other words stand in no passage."""
    case = "A man of 60 years came with pain in the knee after a long walk along the river. " * 6
    assert support_of(f"{case}He takes warfarin. {STEM}", CHOICES, 1, [WARFARIN]).holds
