"""Words that are broken or joined."""

from __future__ import annotations

import pytest
from graph_names import NamesStore, node

from retrieval.graph.linking.dictionary_lookup.dictionary import Dictionary, build_dictionary

NAMES = ("hypothyroidism", "osteoporosis", "hypertension", "breast cancer", "cancer", "multiple sclerosis", "porosis")


@pytest.fixture(scope="module")
def dictionary() -> Dictionary:
    return build_dictionary(NamesStore(tuple(node("Disease", name, name) for name in NAMES)))


@pytest.mark.parametrize(
    ("text", "name", "start", "end"),
    [
        ("drugs for hypo thyroidism", "hypothyroidism", 10, 25),
        ("hyper tension in families", "hypertension", 0, 13),
        ("osteo porosis", "osteoporosis", 0, 13),
        ("Is breastcancer inherited?", "breast cancer", 3, 15),
        ("multiplesclerosis", "multiple sclerosis", 0, 17),
    ],
)
def test_wrong_word_breaks_are_undone_and_told(
    dictionary: Dictionary, text: str, name: str, start: int, end: int
) -> None:
    """The mention covers what was written."""
    read = dictionary.read(text)
    assert [(m.node.name, m.start, m.end) for m in read.mentions] == [(name, start, end)]
    assert any("was read as" in note for note in read.notes)


@pytest.mark.parametrize("text", ["skincancer", "the tension is high", "hyper active", "a blood test"])
def test_no_part_of_a_joined_word_is_a_name(dictionary: Dictionary, text: str) -> None:
    """The graph has cancer, but no skin cancer."""
    assert not dictionary.find(text)
