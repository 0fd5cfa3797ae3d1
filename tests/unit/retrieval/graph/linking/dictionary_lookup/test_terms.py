"""The names of a terminology beside a graph's, and the shipped ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_names import NamesStore, node
from shipped_data import shipped_names

from retrieval.graph.linking.dictionary_lookup.dictionary import Dictionary, build_dictionary
from retrieval.graph.linking.dictionary_lookup.terms import TermNames, term_names
from retrieval.terminology.concepts import parse

TABLE = """\
concept\tsource\tidentifier\tkind\tnames\tclaimed
0\tdoid\tDOID:1\tDisease\tmyocardial infarction|heart attack\t
0\tmesh\tMESH:D1\tDisease\tcardiac infarct\t
1\tmondo\tMONDO:2\tDisease\tpulmonary arterial hypertension|PAHT\t
2\tmondo\tMONDO:3\tDisease\tstroke\t
3\tdoid\tDOID:4\tDisease\tcerebrovascular disease\tstroke
4\tdrugbank\tDB1\tDrug\tSilver|Argentum\t
5\tdrugbank\tDB2\tDrug\tfluoride\t
6\tdrugbank\tDB3\tDrug\tinsulin\t
7\tmondo\tMONDO:8\tDisease\tsevere asthma\t
8\tmesh\tMESH:D9\tDisease\tmetabolic decline\t
8\tarrowhead\tARROWHEAD:metabolic_decline\tDisease\tMDQ\t
9\tdoid\tDOID:10\tClass\tgenetic disease\t
9\tmondo\tMONDO:11\tDisease\thereditary disease\t
"""
NODES = (
    node("Disease", "DOID:1", "heart infarction of the table"),
    node("Disease", "2", "hypertension"),
    node("Disease", "DOID:4", "vascular disease of the brain"),
    node("Disease", "5", "asthma"),
    node("Gene", "6", "insulin"),
    node("Disease", "7", "metabolic decline"),
    node("Disease", "DOID:10", "genetic illness"),
)


@pytest.fixture(scope="module")
def names() -> TermNames:
    return term_names(parse(TABLE.encode()))


@pytest.fixture(scope="module")
def dictionary(names: TermNames) -> Dictionary:
    return build_dictionary(NamesStore(NODES), names=names)


@pytest.mark.parametrize(
    ("text", "identifiers"),
    [
        ("Is a heart attack painful?", ["DOID:1"]),
        ("What is a cardiac infarct?", ["DOID:1"]),
        ("Is a stroke painful?", ["DOID:4"]),
        ("Is severe asthma hereditary?", ["5"]),
        ("Does insulin act?", ["6"]),
        ("Which drugs treat MDQ?", ["7"]),
    ],
)
def test_names_of_a_concept_are_those_of_its_node(dictionary: Dictionary, text: str, identifiers: list[str]) -> None:
    """By identifier or name, also where another concept has the name first; a drug's name is no gene's."""
    assert [mention.node.identifier for mention in dictionary.find(text)] == identifiers


def test_a_concept_without_a_node_is_told_and_hides_names_within_it(dictionary: Dictionary) -> None:
    """Pulmonary arterial hypertension is not hypertension."""
    read = dictionary.read("Does Argentum help in pulmonary arterial hypertension?")
    assert not read.mentions
    assert [mention.node.identifier for mention in read.concepts] == ["DB1", "MONDO:2"]
    assert read.notes == (
        '"Argentum" is Silver, of which the graph has no node',
        '"pulmonary arterial hypertension" names no node of the graph',
    )


@pytest.mark.parametrize(
    ("text", "identifiers"),
    [
        ("Is asthma a hereditary disease?", ["5"]),
        ("Is asthma a genetic illness?", ["5"]),
        ("Does insulin cause hereditary disease?", ["6", "DOID:10"]),
        ("Which genes do asthma and genetic disease share?", ["5", "DOID:10"]),
        ("Is pulmonary arterial hypertension a genetic disease?", []),
    ],
)
def test_a_class_of_diseases_is_found_only_beside_no_other_disease(
    dictionary: Dictionary, text: str, identifiers: list[str]
) -> None:
    """Under any of its names, unless both are asked for; the other one may be one that the graph lacks."""
    read = dictionary.read(text)
    assert [mention.node.identifier for mention in read.mentions] == identifiers
    assert bool(read.classes) == ("DOID:10" not in identifiers)


def test_a_slip_is_no_other_name_of_one_word(dictionary: Dictionary) -> None:
    """Only chief names and the graph's own are near enough for that."""
    assert dictionary.read("Is argntum rare?").concepts == ()


def test_substances_in_one_phrase_are_another_substance(dictionary: Dictionary) -> None:
    """Silver fluoride is neither silver nor fluoride."""
    read = dictionary.read("Does silver fluoride help?")
    assert not read.concepts and "silver fluoride" in read.notes[0]


def test_an_index_is_kept_and_a_damaged_one_is_built_anew(tmp_path: Path, names: TermNames) -> None:
    """A folder that cannot be written to costs time alone."""
    terminology = parse(TABLE.encode())
    built = term_names(terminology, tmp_path)
    (kept,) = tmp_path.iterdir()
    assert (term_names(terminology, tmp_path).table.keys == built.table.keys).all()
    for damage in (b"damaged", b""):
        kept.write_bytes(damage)
        assert (term_names(terminology, tmp_path).table.keys == names.table.keys).all()
    assert (term_names(terminology, Path("/proc/none")).table.keys == names.table.keys).all()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Does Lipitor help?", "Atorvastatin"),
        ("Is Tylenol safe?", "Acetaminophen"),
        ("Which drugs treat a heart attack?", "myocardial infarction"),
        ("What is T2DM?", "type 2 diabetes mellitus"),
        ("Which genes are involved in Lou Gehrig's disease?", "amyotrophic lateral sclerosis"),
        ("drugs for schizofrenia", "schizophrenia"),
    ],
)
def test_the_shipped_names_have_brands_and_everyday_and_short_names(text: str, name: str) -> None:
    dictionary = build_dictionary(NamesStore(()), names=shipped_names())
    assert [mention.node.name.casefold() for mention in dictionary.read(text).concepts] == [name.casefold()]
