"""The linker over the dictionary."""

from __future__ import annotations

import asyncio
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from graph_names import NamesStore, node, read_diseases, shipped_names
from hypothesis import given
from hypothesis import strategies as st

from retrieval.graph.linking.dictionary_lookup.dictionary import Dictionary, build_dictionary
from retrieval.graph.linking.linker import Linker, free_runs
from retrieval.graph.types import Linked, LinkOptions, Mention

STORE = NamesStore(
    [
        node("Disease", "DOID:1", "Parkinson's disease"),
        node("Disease", "DOID:2", "rheumatoid arthritis"),
        node("Disease", "DOID:3", "psoriasis"),
        node("Disease", "DOID:4", "T cell deficiency"),
        node("Disease", "DOID:5", "alpha-mannosidosis"),
        node("Disease", "DOID:6", "Noonan syndrome 1"),
        node("Disease", "DOID:7", "familial hypercholesterolemia"),
        node("Gene", "3106", "HLA-B"),
        node("Gene", "8916", "DTNB"),
        node("Gene", "1", "TERT"),
    ]
)
DATA = Path(os.environ.get("ARROWHEAD_EVAL_DATA", Path(__file__).parents[6] / "shared" / "data"))


@cache
def dictionary() -> Dictionary:
    """Return the names of the store beside the shipped ones: made by the first test, and not when files are read."""
    return build_dictionary(STORE, names=shipped_names())


async def link(question: str, **options: Any) -> Linked:
    return await Linker(dictionary()).link(question, LinkOptions(**options))


async def test_several_entities_of_one_question_are_linked() -> None:
    """Each once, in the question's order."""
    linked = await link("Do psoriasis and Parkinson's share genes with psoriasis?")

    assert [mention.node.name for mention in linked.mentions] == ["psoriasis", "Parkinson's disease"]


async def test_answers_to_choose_from_are_kept_apart() -> None:
    """A question of the multiple-choice form names two diseases; the genes after it are answers."""
    text = "Which Gene is associated with psoriasis and rheumatoid arthritis. Given list is: TERT, HLA-B,  DTNB"
    linked = await link(text)

    assert [mention.node.name for mention in linked.mentions] == ["psoriasis", "rheumatoid arthritis"]
    assert [mention.node.name for mention in linked.options] == ["TERT", "HLA-B", "DTNB"]


@pytest.mark.parametrize(
    "tail", ["\nA) TERT\nB) DTNB", " Options: TERT, DTNB", "\n(A) TERT (B) DTNB", " A. TERT B. DTNB"]
)
async def test_lettered_and_headed_answers_are_known(tail: str) -> None:
    """In each usual form."""
    linked = await link(f"Which gene causes psoriasis?{tail}")

    assert [mention.node.name for mention in linked.options] == ["TERT", "DTNB"]


async def test_what_names_nothing_is_said() -> None:
    """The words of content are unlinked, and nothing is guessed."""
    linked = await link("How do I cook pasta with psoriasis?")

    assert [span.text for span in linked.unlinked] == ["cook pasta"]
    assert linked.notes == ()


async def test_entities_beyond_the_limit_are_left_out_with_a_note() -> None:
    """Never silently."""
    linked = await link("psoriasis or rheumatoid arthritis", max_entities=1)

    assert [mention.node.name for mention in linked.mentions] == ["psoriasis"]
    assert linked.notes == ("1 of 2 names were left out (max_entities)",)


async def test_long_questions_are_cut_with_a_note() -> None:
    """The work is bounded."""
    linked = await link("x " * 20_000 + "psoriasis")

    assert linked.mentions == ()
    assert "first 20000 characters" in linked.notes[0]


async def test_words_beyond_the_dictionarys_bound_are_told_of() -> None:
    """It looks at 4,000."""
    linked = await link("a " * 5_000 + "psoriasis")

    assert linked.mentions == () and linked.notes == ("only the first 4000 words were looked at",)


@pytest.mark.parametrize("sign", ["\u00ad", "\u200b", "\u200d", "\ufeff", "\u2060"])
async def test_signs_that_nobody_sees_part_no_word(sign: str) -> None:
    """Soft hyphens and zero-width spaces come along with copied text."""
    linked = await link(f"What treats psor{sign}iasis?")

    (mention,) = linked.mentions
    assert (mention.node.name, mention.end - mention.start) == ("psoriasis", 10)


def test_runs_leave_taken_places() -> None:
    """Punctuation and words of grammar end them."""
    text = "Which drugs treat severe chronic plaque psoriasis, and why?"
    start = text.index("psoriasis")

    assert [span.text for span in free_runs(text, [(start, start + 9)])][-1] == "severe chronic plaque"
    assert free_runs("What is the?") == []


_LINKER = Linker(build_dictionary(STORE))


@given(st.lists(st.one_of(st.text(max_size=12), st.sampled_from(["psoriasis", "HLA-B", "Options:", "½"])), max_size=8))
def test_no_question_breaks_the_linker(pieces: list[str]) -> None:
    """Valid places."""
    text = " ".join(pieces)
    linked = asyncio.run(_LINKER.link(text, LinkOptions()))
    places: list[Any] = [*linked.mentions, *linked.options, *linked.unlinked]

    assert all(0 <= one.start < one.end <= len(text) for one in places)
    assert all(span.text == text[span.start : span.end] for span in linked.unlinked)


def test_impossible_options_are_refused() -> None:
    """At once, not in mid-question."""
    with pytest.raises(ValueError, match="max_entities"):
        LinkOptions(max_entities=0)


@pytest.mark.shared_data
def test_development_questions_are_linked_to_their_disease() -> None:
    """Of each question the first node is the gold one, or one of its subgroups that the question names in full."""
    names_file = DATA / "kg" / "disease_name_with_id.csv"
    file = DATA / "qa" / "kg_rag" / "dataset_for_entity_retrieval_accuracy_analysis_dev.jsonl"
    if not (file.is_file() and names_file.is_file()):
        pytest.skip(f"no {file}")
    store = read_diseases(names_file)
    dictionary = build_dictionary(store)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    wrong = []
    for case in (str, str.lower, str.upper):
        for row in rows:
            text, gold = case(row["text"]), row["node_hits"].casefold()
            first = dictionary.find(text)[0]
            broader = dictionary.broader(text, first)
            found = {first.node.name.casefold()} | ({broader.node.name.casefold()} if broader else set())
            if gold not in found:
                wrong.append(text)

    assert len(wrong) <= 0.003 * 3 * len(rows)
    lost = [one.name for one in store.names() if _own_name(dictionary.look_up(one.name)) != one.name]
    assert lost == []


def _own_name(mention: Mention | None) -> str:
    return mention.node.name if mention else ""
