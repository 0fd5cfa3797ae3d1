"""Emergencies are recognised in a person's own words, and never in a question about them."""

from __future__ import annotations

import pytest
from emergency_messages import EMERGENCIES, OTHERS
from hypothesis import given
from hypothesis import strategies as st

from server.methods.shared.conversation.emergencies import emergency_in, emergency_reply


def test_the_lists_are_long_enough() -> None:
    """A figure on a few messages says nothing."""
    assert len(set(EMERGENCIES)) >= 60
    assert len(set(OTHERS)) >= 120


def test_no_question_about_an_emergency_is_taken_for_one() -> None:
    """A researcher who asks about chest pain gets the answer, not a number to call."""
    assert [message for message in OTHERS if emergency_in(message)] == []


def test_every_emergency_of_the_list_is_recognised() -> None:
    """In the first and the third person, in English and German."""
    assert [message for message in EMERGENCIES if emergency_in(message) is None] == []


@pytest.mark.parametrize(
    ("message", "kind", "language"),
    [
        ("I want to kill myself", "suicidal", "en"),
        ("Ich will nicht mehr leben", "suicidal", "de"),
        ("I CAN’T BREATHE!!!", "bodily", "en"),
        ("Mein Vater bekommt keine Luft", "bodily", "de"),
        ("My father cannot speak and half of his face hangs down", "bodily", "en"),
        ("Half of her face is drooping. What should I do?", "bodily", "en"),
    ],
)
def test_kind_and_language_decide_the_numbers(message: str, kind: str, language: str) -> None:
    """Emergency numbers always, crisis lines for thoughts of suicide."""
    found = emergency_in(message)
    assert found == (kind, language)
    assert found is not None
    told = emergency_reply(*found)
    assert all(number in told for number in ("112", "911", "999"))
    assert ("988" in told and "116 123" in told and "0800 1110111" in told) == (kind == "suicidal")


@given(st.text(max_size=5_000))
def test_any_text_is_judged(text: str) -> None:
    """Without failing."""
    emergency_in(text)


def test_a_long_hostile_message_is_judged_in_bounded_work() -> None:
    """Only its beginning is read: what stands behind that does not count."""
    assert emergency_in("my " * 200_000 + "I can't breathe") is None
