"""The shipped table of names of common drugs and diseases."""

from __future__ import annotations

import pytest
from graph_names import NamesStore, node

from retrieval.graph.linking.dictionary_lookup.dictionary import (
    Dictionary,
    build_dictionary,
    common_names,
    unusual_words,
)
from retrieval.graph.linking.dictionary_lookup.names import ordinary_words
from retrieval.graph.linking.dictionary_lookup.normalize import fold

NODES = (
    node("Disease", "1", "myocardial infarction"),
    node("Disease", "2", "hypertension"),
    node("Disease", "3", "systemic lupus erythematosus"),
    node("Compound", "4", "Paracetamol"),
    node("Compound", "5", "Atorvastatin"),
)


@pytest.fixture(scope="module")
def dictionary() -> Dictionary:
    return build_dictionary(NamesStore(NODES))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Does Lipitor prevent a heart attack?", ["Atorvastatin", "myocardial infarction"]),
        ("Is Tylenol the same as acetaminophen?", ["Paracetamol", "Paracetamol"]),
        ("Is lupus worse with high blood pressure?", ["systemic lupus erythematosus", "hypertension"]),
    ],
)
def test_brand_and_everyday_names_are_those_of_nodes(dictionary: Dictionary, text: str, names: list[str]) -> None:
    """A substance's names are equal: a graph may have any."""
    assert [mention.node.name for mention in dictionary.find(text)] == names


def test_a_known_name_without_a_node_is_told_and_hides_names_within_it(dictionary: Dictionary) -> None:
    """Pulmonary arterial hypertension is not hypertension."""
    read = dictionary.read("Do Coumadin and warfarin help in pulmonary arterial hypertension?")
    assert not read.mentions
    assert read.notes == (
        '"Coumadin" is warfarin, of which the graph has no node',
        '"warfarin" names no node of the graph',
        '"pulmonary arterial hypertension" names no node of the graph',
    )


def test_the_table_has_each_name_once_and_no_ordinary_word_for_a_drug() -> None:
    """Two lines for one name would make its meaning depend on their order; a brand "Alli" would be found in "all"."""
    entries = [entry for entry in common_names() if not entry.is_abbreviation]
    meant: dict[tuple[str, ...], set[str]] = {}
    for entry in entries:
        meant.setdefault(tuple(fold(entry.name)), set()).add(entry.targets[0])
    assert len(meant) > 900
    assert [name for name, targets in meant.items() if len(targets) > 1] == []
    brands = [entry.name for entry in entries if entry.name.istitle() and entry.targets[0].islower()]
    english = ordinary_words()
    assert {name for name in brands if len(fold(name)) == 1 and english.has([name.casefold()])[0]} <= {"Concerta"}


def test_unusual_words_are_those_of_no_english_list_in_any_form() -> None:
    text = "Does ropivacaine prevent falls and pains in treated adults, as studies of macrosomia carried out show?"
    assert unusual_words(text) == ("ropivacaine", "macrosomia")
