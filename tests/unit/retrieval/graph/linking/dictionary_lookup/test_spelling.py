"""Misspelt names: read as the name that was meant, or left alone with a note, never as another."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from graph_names import NamesStore, node
from hypothesis import given
from hypothesis import strategies as st
from shipped_data import shipped_names

from retrieval.graph.linking.dictionary_lookup.dictionary import Dictionary, build_dictionary
from retrieval.graph.linking.linker import Linker
from retrieval.graph.types import Linked, LinkOptions

STORE = NamesStore(
    [
        node("Disease", "1", "rheumatoid arthritis"),
        node("Disease", "2", "arthritis"),
        node("Disease", "3", "type 2 diabetes mellitus"),
        node("Disease", "4", "diabetes mellitus"),
        node("Disease", "5", "psoriasis"),
        node("Disease", "6", "laryngitis"),
        node("Disease", "7", "pharyngitis"),
        node("Disease", "8", "ovarian cancer"),
        node("Disease", "9", "cancer"),
        node("Disease", "10", "macrocephaly syndrome"),
        node("Disease", "11", "methylmalonic acidemia complex I deficiency"),
        node("Disease", "12", "dry eye syndrome"),
        node("Disease", "13", "fever"),
        node("Disease", "14", "chromosome 22q11.2 duplication syndrome"),
        node("Disease", "15", "alpha-mannosidosis"),
        node("Disease", "16", "Alzheimer's disease"),
        node("Disease", "17", "hypokalemia"),
        node("Disease", "18", "ataxia of the Townes type"),
        node("Gene", "19", "2"),
        node("Gene", "20", "IL23R"),
        node("Gene", "21", "BRCA1"),
        node("Gene", "22", "LEAD"),
        node("Gene", "23", "TERTE"),
        node("Compound", "24", "hydralazine"),
        node("Compound", "25", "prednisone"),
        node("Compound", "26", "cysteine"),
        node("Compound", "27", "sodium nitrate"),
        node("Compound", "28", "metformin"),
        node("Compound", "29", "cyclosporine"),
        node("Compound", "30", "iron"),
        node("Gene", "31", "SLITRK"),
        node("Gene", "32", "B"),
        node("Disease", "33", "cadin 2 protein defect"),
    ]
)


@cache
def dictionary() -> Dictionary:
    """Return the names of the store beside the shipped ones: made by the first test, and not when files are read."""
    return build_dictionary(STORE, names=shipped_names())


async def link(question: str, linker: Linker | None = None, **options: Any) -> Linked:
    return await (linker or Linker(dictionary())).link(question, LinkOptions(**options))


def named(linked: Linked) -> list[str]:
    return [mention.node.name for mention in linked.mentions]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("rheumtaoid arthritis", "rheumatoid arthritis"),
        ("RHEUMTAOID ARTHRITIS", "rheumatoid arthritis"),
        ("rheumatoid arthrtis", "rheumatoid arthritis"),
        ("rheumtaoid arthrtis", "rheumatoid arthritis"),
        ("heumatoid arthritis", "rheumatoid arthritis"),
        ("type 2 diabtees", "type 2 diabetes mellitus"),
        ("type II diabetse mellitus", "type 2 diabetes mellitus"),
        ("psoriaisis", "psoriasis"),
        ("Alzhiemer's disease", "Alzheimer's disease"),
        ("chromosome 22q11.2 duplicatoin syndrome", "chromosome 22q11.2 duplication syndrome"),
        ("metfromin", "metformin"),
    ],
)
async def test_a_name_with_a_slip_is_read_as_the_name(text: str, name: str) -> None:
    """Two letters exchanged, one left out, one doubled, in one word or two; the whole name, not one within it."""
    linked = await link(f"What treats {text}?")

    (mention,) = linked.mentions
    assert (mention.node.name, mention.method) == (name, "spelling")
    assert 0.7 < mention.score < 1.0
    assert linked.notes == (f'"{text}" was read as {name}',)
    assert linked.unlinked == ()


async def test_a_name_among_others_is_read() -> None:
    """Its words before an "and" too, and what is written as it should be stays as it is."""
    linked = await link("Do ovarain cancer, psoriasis and rheumatiod arthritis share genes?")

    assert named(linked) == ["ovarian cancer", "psoriasis", "rheumatoid arthritis"]
    assert [mention.method for mention in linked.mentions] == ["spelling", "exact", "spelling"]


@pytest.mark.parametrize(
    "text",
    [
        *["hydroxyzine", "prednisolone", "cystine", "cycloserine", "IL23", "IL2", "IL23A", "BRCA2", "TERTA"],
        *["terte2", "beta-mannosidosis", "non-hydralazine", "psoriasin", "slitrkk", "canccer"],
        "sodium nitrite",
        "microcephaly syndrome",
        "hypokalemic paresis",
        "Foobar syndrome",
        "a lever or a lead",
        "dry yee syndrome",
        "cadon2 protein defect",
        "CADON 2 protein defect",
        "the fewer the better",
    ],
)
async def test_another_name_is_no_slip(text: str) -> None:
    """Drugs and salts one letter apart, symbols, contraries, adjectives, names that the graph lacks, English words."""
    linked = await link(f"What is known of {text}?")

    assert named(linked) == []
    assert not any("read as" in note for note in linked.notes)


@pytest.mark.parametrize(
    ("text", "names"), [("type 1 diabtees", []), ("type 3 diabtees mellitus", ["diabetes mellitus"])]
)
async def test_numbers_are_not_corrected(text: str, names: list[str]) -> None:
    """Type 1 is no misspelt type 2, and has no node here; the disease of all types is what "type 3" is said of."""
    linked = await link(text)

    assert named(linked) == names


async def test_two_names_equally_near_are_both_told() -> None:
    """None is taken."""
    linked = await link("What treats haryngitis?")
    assert named(linked) == []
    assert linked.notes == ('"haryngitis" may be laryngitis or pharyngitis; neither was taken',)


async def test_a_name_beside_a_word_of_no_name_is_taken_with_a_note() -> None:
    """A kind of psoriasis that the graph does not have is still one; with two slips it may be another."""
    for word, name in (("velorate", "psoriasis"), ("rhematiod", "arthritis")):
        linked = await link(f"What treats {word} {name}?")

        assert named(linked) == [name]
        assert linked.notes == (f'no node of the graph was found for "{word}"',)


async def test_a_symbol_beside_a_misspelt_word_is_taken() -> None:
    """It is no part of the other name."""
    assert named(await link("IL23R rhematiod")) == ["IL23R"]


async def test_answers_to_choose_from_are_read_as_written() -> None:
    """They are mostly symbols."""
    linked = await link("Which treats psoriasis? Options: metfromin, hydralazine")

    assert named(linked) == ["psoriasis"]
    assert [mention.node.name for mention in linked.options] == ["hydralazine"]


async def test_unknown_words_beyond_the_bound_are_told_of() -> None:
    """A text in another language costs no more than sixteen words."""
    words = " ".join(f"qwrtz{letter}x." for letter in "abcdefghijklmnopqrstuvwxyz")
    linked = await link(f"{words} rheumtaoid arthritis")

    assert linked.notes[-1] == "only the first 16 unknown words were looked at for slips of the pen"


async def test_a_misspelt_name_that_the_model_gives_is_read() -> None:
    """By the same rules."""

    class Model:
        async def extract(self, system: str, user: str, schema: object) -> str:
            return '{"entities": [{"name": "rheumtaoid arthritis", "kind": "Disease"}]}'

    linked = await Linker(dictionary(), Model()).link("rheumtaoid arthritis?", LinkOptions(method="model"))

    assert [(mention.node.name, mention.method) for mention in linked.mentions] == [("rheumatoid arthritis", "model")]


def test_every_name_is_read_as_itself() -> None:
    """No name of the graph is a slip of another's."""
    for one in (name.name for name in STORE.names()):
        mention = dictionary().look_up(one)
        assert mention is not None and mention.node.name == one
        assert all(mention.method != "spelling" for mention in dictionary().find(f"about {one}"))


COMPOUNDS = (
    "hypothyroidism",
    "osteoporosis",
    "hypertension",
    "breast cancer",
    "cancer",
    "multiple sclerosis",
    "porosis",
)


@pytest.fixture(scope="module")
def compounds() -> Dictionary:
    return build_dictionary(NamesStore(tuple(node("Disease", name, name) for name in COMPOUNDS)))


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
    compounds: Dictionary, text: str, name: str, start: int, end: int
) -> None:
    """The mention covers what was written."""
    read = compounds.read(text)
    assert [(m.node.name, m.start, m.end) for m in read.mentions] == [(name, start, end)]
    assert any("was read as" in note for note in read.notes)


@pytest.mark.parametrize("text", ["skincancer", "the tension is high", "hyper active", "a blood test"])
def test_no_part_of_a_joined_word_is_a_name(compounds: Dictionary, text: str) -> None:
    """The graph has cancer, but no skin cancer."""
    assert not compounds.find(text)


@given(st.lists(st.sampled_from(["rheumtaoid", "arthritis", "diabtees", ",", "type", "2", "é", "-", "haryngitis"])))
def test_no_text_breaks_the_reading(words: list[str]) -> None:
    """Places within the text, in order, without overlaps."""
    text = " ".join(words)
    reading = dictionary().read(text)
    places = [(mention.start, mention.end) for mention in reading.mentions]

    assert places == sorted(places) and all(0 <= start < end <= len(text) for start, end in places)
    assert all(one[1] <= other[0] for one, other in pairwise(places))
