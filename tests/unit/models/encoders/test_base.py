"""One text of title and text."""

from __future__ import annotations

import pytest

from models.encoders.base import PassageText, join_title


@pytest.mark.parametrize(
    ("title", "text", "joined"),
    [
        ("Aspirin in stroke", "We gave it.", "Aspirin in stroke. We gave it."),
        ("Aspirin in stroke.", "We gave it.", "Aspirin in stroke. We gave it."),
        ("Does aspirin help?", "Yes.", "Does aspirin help? Yes."),
        ("", " We gave it.\n", "We gave it."),
        ("Aspirin in stroke.", "", "Aspirin in stroke."),
        ("", "", ""),
    ],
)
def test_title_and_text_become_two_sentences(title: str, text: str, joined: str) -> None:
    """With one full stop between them, and nothing left over where one is empty."""
    assert join_title(PassageText(title, text)) == joined


def test_another_separator_stands_as_it_is() -> None:
    """SPECTER's texts have a special token between them, whatever the title ends in."""
    assert join_title(PassageText("A title.", "Text."), "[SEP]") == "A title.[SEP]Text."
