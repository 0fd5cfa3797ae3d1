"""Names that also mean something else."""

from __future__ import annotations

import pytest
from graph_names import NamesStore, node, shipped_names

from retrieval.graph.linking.dictionary_lookup.dictionary import Dictionary, build_dictionary

NODES = (
    node("Disease", "1", "multiple sclerosis", "MS"),
    node("Disease", "2", "hepatocellular carcinoma"),
    node("Disease", "3", "cerebrovascular disease"),
    node("Disease", "4", "Alzheimer's disease"),
    node("Disease", "5", "cancer"),
    node("Disease", "8", "Parkinson's disease"),
    node("Anatomy", "7", "eye"),
)


@pytest.fixture(scope="module")
def dictionary() -> Dictionary:
    return build_dictionary(NamesStore(NODES), names=shipped_names())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Which drugs treat hcc?", "hepatocellular carcinoma"),
        ("patients with ms", "multiple sclerosis"),
        ("Does MS shorten life?", "multiple sclerosis"),
        ("What is MS?", "multiple sclerosis"),
        ("Is a stroke of the young rare?", ""),
        ("She had a stroke.", "cerebrovascular disease"),
        ("Which drops for the eye of a patient?", "eye"),
        ("Is this lump a sign of cancer?", "cancer"),
        ("an MS degree", ""),
        ("It took 20 ms in patients.", ""),
        ("an ad for drugs", ""),
        ("The MS of the bank resigned.", ""),
        ("a stroke of luck", ""),
        ("drugs for parkinsons", "Parkinson's disease"),
        ("Do genes cause Parkinson?", "Parkinson's disease"),
        ("born under the sign of Cancer", ""),
    ],
)
def test_the_words_beside_a_name_decide_its_meaning(dictionary: Dictionary, text: str, name: str) -> None:
    """A false friend is not linked."""
    assert [mention.node.name for mention in dictionary.find(text)] == ([name] if name else [])
