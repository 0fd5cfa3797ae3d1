"""Names that also mean something else."""

from __future__ import annotations

import pytest
from graph_names import NamesStore, node
from shipped_data import shipped_names

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
        ("She had a stroke.", "cerebrovascular disease"),
        ("Which drops for the eye of a patient?", "eye"),
        ("Is this lump a sign of cancer?", "cancer"),
        ("an MS degree", ""),
        ("It took 20 ms in patients.", ""),
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


DISEASES = (
    node("Disease", "1", "hypertension"),
    node("Disease", "2", "asthma"),
    node("Disease", "3", "systemic lupus erythematosus"),
    node("Disease", "4", "Parkinson's disease"),
    node("Disease", "5", "diabetes mellitus"),
    node("Compound", "6", "insulin"),
)


@pytest.fixture(scope="module")
def diseases() -> Dictionary:
    return build_dictionary(NamesStore(DISEASES), names=shipped_names())


@pytest.mark.parametrize(
    ("text", "longer"),
    [
        ("Which drugs treat portal hypertension?", "portal hypertension"),
        ("Which genes cause lupus nephritis?", "lupus nephritis"),
        ("Is drug-induced lupus reversible?", "drug-induced lupus"),
        ("Is Wolff-Parkinson-White syndrome rare?", "Wolff-Parkinson-White"),
        ("What is diabetes insipidus?", "diabetes insipidus"),
    ],
)
def test_a_name_within_a_longer_one_is_not_taken(diseases: Dictionary, text: str, longer: str) -> None:
    """The longer name is another disease, and a note says that the graph has none."""
    read = diseases.read(text)
    assert not read.mentions
    assert any(longer in note for note in read.notes)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Is severe asthma hereditary?", "asthma"),
        ("How is treatment-resistant hypertension managed?", "hypertension"),
        ("Does insulin treat asthma attacks?", "insulin"),
        ("Which clinical trials study asthma?", "asthma"),
        ("What causes early-onset hypertension?", "hypertension"),
        ("Who treats advanced Parkinson's disease?", "Parkinson's disease"),
    ],
)
def test_degree_and_course_make_no_other_disease(diseases: Dictionary, text: str, name: str) -> None:
    """Severe asthma is asthma."""
    assert diseases.find(text)[0].node.name == name
