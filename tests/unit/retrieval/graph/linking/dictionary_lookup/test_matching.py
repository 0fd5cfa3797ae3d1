"""Names that share words in a coordination."""

from __future__ import annotations

import pytest
from graph_names import NamesStore, node
from shipped_data import shipped_names

from retrieval.graph.linking.dictionary_lookup.dictionary import Dictionary, build_dictionary

NAMES = (
    "type 1 diabetes mellitus",
    "type 2 diabetes mellitus",
    "diabetes mellitus",
    "hepatitis A",
    "hepatitis B",
    "hepatitis C",
    "breast cancer",
    "ovarian cancer",
    "prostate cancer",
    "multiple endocrine neoplasia type 1",
    "multiple endocrine neoplasia type 2A",
)


@pytest.fixture(scope="module")
def dictionary() -> Dictionary:
    return build_dictionary(NamesStore(tuple(node("Disease", name, name) for name in NAMES)), names=shipped_names())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Who gets type 1 or 2 diabetes?", ["type 1 diabetes mellitus", "type 2 diabetes mellitus"]),
        ("Who gets type I/II diabetes mellitus?", ["type 1 diabetes mellitus", "type 2 diabetes mellitus"]),
        ("Is hepatitis B or C worse?", ["hepatitis B", "hepatitis C"]),
        ("Compare hepatitis A, B and C.", ["hepatitis A", "hepatitis B", "hepatitis C"]),
        ("Is hepatitis B or a cold worse?", ["hepatitis B"]),
        ("breast, ovarian and prostate cancer", ["breast cancer", "ovarian cancer", "prostate cancer"]),
        ("breast, testicular or prostate cancer", ["breast cancer", "prostate cancer"]),
        (
            "multiple endocrine neoplasia type 1 or 2A",
            ["multiple endocrine neoplasia type 1", "multiple endocrine neoplasia type 2A"],
        ),
        ("It took 1 or 2 days.", []),
    ],
)
def test_each_item_of_a_list_is_completed(dictionary: Dictionary, text: str, names: list[str]) -> None:
    """By the words that stand once, before or after the list."""
    assert [mention.node.name for mention in dictionary.find(text)] == names
