"""The linker over its two methods."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from graph_names import NamesStore, node, read_diseases
from hypothesis import given
from hypothesis import strategies as st
from shipped_data import shipped_names

from models.errors import ENGINE_FULL, ModelError
from retrieval.graph.linking.dictionary_lookup.dictionary import Dictionary, build_dictionary
from retrieval.graph.linking.linker import Linker
from retrieval.graph.linking.model_extraction import MAX_ENTITIES, extract, parse, prompt, schema
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


class Scripted:
    """A model that answers with what it is given, or raises it, or never answers."""

    def __init__(self, reply: str | Exception | None) -> None:
        self.reply = reply
        self.asked: list[tuple[str, str, Mapping[str, Any]]] = []

    async def extract(self, system: str, user: str, schema: Mapping[str, Any]) -> str:
        self.asked.append((system, user, schema))
        if self.reply is None:
            await asyncio.sleep(3_600)
        if isinstance(self.reply, Exception):
            raise self.reply
        return str(self.reply)


def entities(*pairs: tuple[str, str]) -> str:
    return json.dumps({"entities": [{"name": name, "kind": kind} for name, kind in pairs]})


@cache
def dictionary() -> Dictionary:
    """Return the names of the store beside the shipped ones: made by the first test, and not when files are read."""
    return build_dictionary(STORE, names=shipped_names())


async def link(question: str, *, reply: str | Exception | None = "", **options: Any) -> Linked:
    extractor = None if reply == "" else Scripted(reply)
    return await Linker(dictionary(), extractor).link(question, LinkOptions(**options))


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
    """Words that English has not are unlinked, those that follow one another as one, and nothing is guessed."""
    linked = await link("How do I cook Pasta Zuranol, Brexol-5 and psoriasis?")

    assert [span.text for span in linked.unlinked] == ["Zuranol", "Brexol-5"]
    assert linked.notes == ('no node of the graph was found for "Zuranol", "Brexol-5"',)


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


async def test_the_model_finds_what_the_dictionary_holds() -> None:
    """What it names is looked up, and what it makes up is dropped with a note."""
    reply = entities(("PSORIASIS", "Disease"), ("measles", "Disease"), ("TERT", "Gene"))
    linked = await link("Is tert linked to psoriasis?", reply=reply, method="model")

    assert [(one.node.name, one.method) for one in linked.mentions] == [("TERT", "model"), ("psoriasis", "model")]
    assert linked.notes == ("1 names that the model gave are not in the question",)


@pytest.mark.parametrize(
    "reply",
    [
        "Sure! Here you go",
        '```json\n{"entities": []}\n```',
        '{"entities": [{"name": "psoriasis"}]}',
        '{"entities": [{"name": "psoriasis", "kind": "Planet"}]}',
        '{"entities": [{"name": 3, "kind": "Gene"}]}',
        '{"entities": {}}',
        "[" * 5_000,
        "null",
        ModelError("the queue is full", ENGINE_FULL),
    ],
)
async def test_a_failing_model_falls_back_to_the_dictionary_and_says_so(reply: str | Exception) -> None:
    """Prose, fences, other forms, other kinds, an engine's error."""
    linked = await link("Is psoriasis rare?", reply=reply, method="model")

    assert [(one.node.name, one.method) for one in linked.mentions] == [("psoriasis", "exact")]
    assert linked.notes[0].startswith("the model") and linked.notes[0].endswith("the dictionary was used")


async def test_a_silent_model_is_given_up() -> None:
    """After its time."""
    linked = await link("Is psoriasis rare?", reply=None, method="model", model_timeout_s=0.01)

    assert [one.node.name for one in linked.mentions] == ["psoriasis"]
    assert "0.01 s" in linked.notes[0]


async def test_a_missing_method_falls_back_and_says_so() -> None:
    """No model."""
    linked = await link("psoriasis", method="model")
    assert len(linked.mentions) == 1 and "no model is loaded" in linked.notes[0]


async def test_auto_asks_the_model_only_where_nothing_was_found() -> None:
    """One call for a question without a known name, none for one with."""
    model = Scripted(entities())
    linker = Linker(dictionary(), model)
    await linker.link("Is psoriasis rare?")
    assert model.asked == []
    linked = await linker.link("Is measles rare?")

    assert len(model.asked) == 1 and linked.mentions == ()


async def test_the_prompt_and_the_schema_name_the_kinds_of_the_graph() -> None:
    """The grammar leaves no other."""
    model = Scripted(entities(("x", "Gene")))
    found = await extract(model, "x", ("Gene", "Disease"), 1.0)

    assert [entity.name for entity in found.entities] == ["x"]
    assert "Gene, Disease" in prompt(("Gene", "Disease")) and '{"entities"' in model.asked[0][0]
    kind = schema(("Gene",))["properties"]["entities"]["items"]["properties"]["kind"]
    assert kind == {"type": "string", "enum": ["Gene"]}


def test_more_entities_than_allowed_are_refused() -> None:
    """The answer is bounded."""
    with pytest.raises(ValueError, match="maxItems"):
        parse(entities(*[("x", "Gene")] * (MAX_ENTITIES + 1)), ["Gene"])


@given(st.text(max_size=60))
def test_no_answer_of_a_model_breaks_the_reading(reply: str) -> None:
    """Entities or ValueError."""
    try:
        parse(reply, ["Gene"])
    except ValueError:
        return


_LINKER = Linker(build_dictionary(STORE), Scripted(entities(("a", "Gene"))))
_METHODS = st.sampled_from(["dictionary", "model", "auto"])


@given(
    st.lists(st.one_of(st.text(max_size=12), st.sampled_from(["psoriasis", "HLA-B", "Options:", "½"])), max_size=8),
    _METHODS,
)
def test_no_question_breaks_the_linker(pieces: list[str], method: Any) -> None:
    """Valid places, whatever the method."""
    text = " ".join(pieces)
    linked = asyncio.run(_LINKER.link(text, LinkOptions(method=method)))
    places: list[Any] = [*linked.mentions, *linked.options, *linked.unlinked]

    assert all(0 <= one.start < one.end <= len(text) for one in places)
    assert all(span.text == text[span.start : span.end] for span in linked.unlinked)


def test_impossible_options_are_refused() -> None:
    """At once, not in mid-question."""
    with pytest.raises(ValueError, match="max_entities"):
        LinkOptions(max_entities=0)
    with pytest.raises(ValueError, match="model_timeout_s"):
        LinkOptions(model_timeout_s=0)


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
