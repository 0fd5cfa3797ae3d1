"""The words of the page in every language: none is missing, and each has the places that the page fills in."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[4] / "server" / "web" / "static"
ENGLISH: dict[str, str] = json.loads((STATIC / "en.json").read_text(encoding="utf-8"))
LANGUAGES = sorted(path.stem for path in STATIC.glob("*.json") if path.stem != "en")


def words(language: str) -> dict[str, str]:
    """Return a catalogue; a key that stands in it twice is a fault."""

    def unique(pairs: list[tuple[str, str]]) -> dict[str, str]:
        keys = [key for key, _ in pairs]
        assert sorted(key for key in set(keys) if keys.count(key) > 1) == []
        return dict(pairs)

    found: dict[str, str] = json.loads((STATIC / f"{language}.json").read_text("utf-8"), object_pairs_hook=unique)
    return found


def places(text: str) -> list[str]:
    return sorted(set(re.findall(r"\{\w+\}", text)))


def test_the_page_has_german_french_and_spanish() -> None:
    assert {"de", "es", "fr"} <= set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalogue_is_complete(language: str) -> None:
    """What is listed is missing, with its English text, or is in no use any more."""
    own = words(language)

    assert {key: ENGLISH[key] for key in ENGLISH if key not in own} == {}
    assert sorted(key for key in own if key not in ENGLISH) == []
    assert own["language"] == language


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_translation_has_the_places_of_the_english_text(language: str) -> None:
    """A number or a name that the page fills in appears, and no brace is left as it is."""
    own = words(language)

    assert [key for key, text in own.items() if key in ENGLISH and places(text) != places(ENGLISH[key])] == []
    assert [key for key, text in own.items() if not text.strip()] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalogue_is_translated(language: str) -> None:
    """Sentences differ from the English; questions of the examples stay in the language of the data."""
    own = words(language)
    same = [key for key, text in own.items() if text == ENGLISH.get(key) and len(text.split()) > 3]

    assert [key for key in same if not key.startswith("example.") and key != "literature.placeholder"] == []
