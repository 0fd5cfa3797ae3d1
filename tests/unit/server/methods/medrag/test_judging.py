"""On which sentence a choice rests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from passage_bench import DRUGS, PassageBench, Script, done, shown

from server.methods.medrag.judging import support_of
from server.methods.medrag.method import MedRag
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


@pytest.mark.parametrize(
    ("stem", "is_supported"),
    [
        ("From which age on are the rules reliable in children?", True),
        ("Estimate the age from a radiograph:", False),
    ],
)
def test_a_number_needs_a_sentence_with_more_of_the_question(stem: str, is_supported: bool) -> None:
    """It stands in many passages, and the unit beside it in all choices."""
    source = Source("", "The rules are reliable in children over 5 years of age.")
    assert support_of(stem, ["5 years", "10 years", "15 years"], 0, [source]).holds == is_supported


def test_a_symbol_with_a_digit_is_no_number() -> None:
    source = Source("", "The age of onset is low with BRCA1.")
    assert support_of("Which gene is known from a radiograph or the age?", ["BRCA1", "TP53"], 0, [source]).bar < 0.5


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    facts = {"trained_for": ("medrag",)}
    return lambda script, **more: PassageBench(lambda s, p: MedRag(s, p, 400), tmp_path, script, facts=facts, **more)


def chain(reasoning: str, answer: str) -> Script:
    return lambda prompt: answer if prompt.endswith("Answer:") else reasoning


@pytest.mark.parametrize(("reasoning", "outcome"), [(" It reverses it [2].", "answered"), (" It does.", "partial")])
async def test_yes_and_no_as_choices_rest_on_what_the_model_cites(bench: Any, reasoning: str, outcome: str) -> None:
    """No passage names them."""
    question = "Does protamine reverse heparin?\nA. yes\nB. no"
    async with bench(chain(reasoning, " A")) as made:
        events = await made.ask(question, k=3, synthesis="generated")
    assert shown(events).startswith("A. yes") and done(events).outcome == outcome
    assert ("cites no passage" in shown(events)) is (outcome == "partial")


@pytest.mark.parametrize("choices", ["A. 7\nB. 9", "A. 7 days\nB. 9 days", "A. Platelets\nB. Thrombin"])
async def test_a_choice_that_a_cited_passage_on_something_else_has_is_not_supported(bench: Any, choices: str) -> None:
    """A number stands in many passages, words of all choices tell none; another needs two of the question beside it."""
    counts = ("Counts", "Platelets live for 7 days.", "")
    seams = ("Seams", "Sutures are seams. Childhood ends at 7. Some days are longer.", "")
    async with bench(chain(" See [3] [1] [2] [4] [5].", " A"), documents=(*DRUGS, counts, seams)) as made:
        events = await made.ask(
            f"What do cranial sutures fuse with in later childhood?\n{choices}", k=6, synthesis="generated"
        )
    assert done(events).outcome == "abstained" and "nothing that was read supports" in shown(events)
