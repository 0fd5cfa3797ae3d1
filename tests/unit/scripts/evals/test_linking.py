"""The evaluation of linking: what it counts as found, as right and as said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retrieval.graph.linking.dictionary_lookup.dictionary import build_dictionary
from retrieval.graph.linking.linker import Linker
from retrieval.graph.types import LinkOptions
from scripts.evals.linking import Asked, NodeStore, measure, natural_questions, published_questions


@pytest.fixture
def store() -> NodeStore:
    made = NodeStore()
    made.add("Disease", "asthma", ("bronchial asthma",))
    made.add("Disease", "psoriasis")
    return made


async def test_names_that_the_graph_lacks_are_not_asked_for(store: NodeStore) -> None:
    """A link where a text names nothing is a false one."""
    asked = [
        Asked("q", "Which drugs treat asthma?", (frozenset({"asthma"}), frozenset({"scabies"}))),
        Asked("q", "What is psoriasis?", (frozenset({"asthma"}),)),
        Asked("q", "I like psoriasis.", ()),
    ]
    found = (await measure(Linker(build_dictionary(store)), store.known, asked, LinkOptions(method="dictionary")))["q"]
    assert (found.questions, found.texts, found.false_texts) == (2, 1, 1)
    assert (found.wanted, found.found, found.linked, found.right) == (2, 1, 2, 1)
    assert len(found.failures) == 2


def test_the_natural_questions_are_in_two_halves() -> None:
    groups = {one.group for one in natural_questions()}
    assert groups == {"build", "held"}


def test_published_questions_name_their_diseases(tmp_path: Path) -> None:
    row = {"text": "What do A and B share?", "disease_1": "A", "disease_2": "B"}
    (tmp_path / "mcq_questions_dev.jsonl").write_text(json.dumps(row) + "\n")
    (one,) = published_questions(tmp_path)
    assert (one.group, one.required) == ("mcq_questions", (frozenset({"a"}), frozenset({"b"})))
