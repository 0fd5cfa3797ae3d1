"""The questions of the outcome evaluation: well-formed, and true of the data that the project ships."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.outcomes.items import FILE, KINDS, NOTES, Item, documents_in, load
from server.methods.base import METHOD_NAMES

ROOT = Path(__file__).parents[4] / "retrieval"
GATEWAY, GRAPH = ROOT / "gateway" / "store" / "sample", ROOT / "graph" / "store" / "open"
ITEMS = load()


def table(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open() as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


@cache
def rows(where: str) -> tuple[str, ...]:
    """Of one source, each row one text with its cells in brackets."""
    if where == "notes":
        return tuple(f"[{note['id']}] {note['title']}: {note['text']}" for note in documents_in(NOTES))
    if where == "graph":
        names = {f"{node['kind']}::{node['identifier']}": node["name"] for node in table(GRAPH / "nodes.tsv.gz")}
        edges = [[edge["source"], edge["kind"], edge["target"]] for edge in table(GRAPH / "edges.tsv.gz")]
        # The ontology's parents answer no question of these.
        edges = [edge for edge in edges if edge[1] != "ISA_DiD"]
        return tuple(
            "".join(f"[{names.get(part, part.partition('::')[2] or part)}]" for part in edge) for edge in edges
        )
    found = table(GATEWAY / f"{where}.tsv")
    # Cells with several values: each value is one of its own.
    return tuple("".join(f"[{part}]" for cell in row.values() for part in (cell or "").split("|")) for row in found)


def row_of(fact: dict[str, Any]) -> str:
    """The row that has all of them, in tables as whole cells, of which prose may be a part."""
    is_table = fact["where"] != "notes"
    for row in rows(fact["where"]):
        first, *others = fact["holds"]
        cells = [f"[{text}]" if is_table else text for text in others]
        if f"[{first}]" in row and all(text in row or (" " in text and text[1:-1] in row) for text in cells):
            return row
    raise LookupError(fact)


def sources(item: Item) -> set[str]:
    of = {"genegpt": ("genes", "snps", "omim", "sequences"), "kg-rag": ("graph",)}
    return {name for method in item.methods for name in of.get(method, ("notes",))}


def test_there_are_enough_questions_of_every_kind_for_every_method() -> None:
    """At least 160, at least ten of each kind; each method is asked of each kind.

    Literature reviews and answers steered by keywords have questions of their own, as they read other things
    (``scripts/evals/clinfo.py sample``, ``scripts/evals/weiseeule.py``).
    """
    kinds = Counter(item.kind for item in ITEMS)
    assert len(ITEMS) >= 160
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) >= 10
    asked = {(item.kind, method) for item in ITEMS for method in item.methods}
    methods = set(METHOD_NAMES) - {"clinfo", "weiseeule"}
    assert asked == {(kind, method) for kind in KINDS for method in methods}


def test_no_question_is_there_twice() -> None:
    """Neither by its name nor by its text and method."""
    assert len({item.id for item in ITEMS}) == len(ITEMS)
    texts = Counter((method, item.text) for item in ITEMS for method in item.methods)
    assert [text for text, number in texts.items() if number > 1] == []


@pytest.mark.parametrize("item", [item for item in ITEMS if item.fact], ids=lambda item: item.id)
def test_an_expected_fact_stands_in_the_sample_data(item: Item) -> None:
    """In one row, from which an accepted answer can be read."""
    assert item.fact is not None
    row = row_of(dict(item.fact))
    assert item.fact["where"] in sources(item)
    if item.accepted and not item.closed:
        assert any(pattern.search(row.replace("[", " ").replace("]", " ")) for pattern in item.accepted), row


@pytest.mark.parametrize("item", [item for item in ITEMS if item.absent], ids=lambda item: item.id)
def test_what_is_to_be_missing_is_missing(item: Item) -> None:
    """In every source that the question's methods read; and the question names it."""
    for name in item.absent:
        assert name.casefold() in item.text.casefold()
        key = name.casefold().removeprefix("rs")  # as tables of variants have it
        assert [row for where in sources(item) for row in rows(where) if key in row.casefold()] == []


def test_every_question_can_be_judged() -> None:
    """An answer is compared with a text, or there is none to be had."""
    for item in ITEMS:
        assert item.accepted or "answered" not in item.expected, item.id
        assert item.fact or not item.accepted or item.kind == "emergency", item.id
        assert not any(pattern.search("") for pattern in item.accepted), item.id


def test_follow_ups_need_their_history() -> None:
    """Their last message alone does not name what it asks about, and others have one message."""
    for item in ITEMS:
        assert (len(item.messages) > 1) == (item.kind == "follow_up"), item.id


def test_there_are_enough_notes() -> None:
    """Each with a title and a text of its own."""
    notes = documents_in(NOTES)
    assert len(notes) >= 30
    assert len({note["text"] for note in notes}) == len(notes)


GOOD = {"id": "a", "kind": "known", "methods": ["genegpt"], "messages": [{"role": "user", "content": "x"}]}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"expected": ["sure"]}, "expected: sure"),
        ({"expected": []}, "may not be empty"),
        ({"kind": "odd"}, "kind: odd"),
        ({"methods": ["direct"]}, "methods: direct"),
        ({"accepted": ["("]}, "line 1"),
        ({"acepted": ["x"]}, "unknown fields: acepted"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "the user's"),
    ],
)
def test_a_damaged_question_is_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    """With its line and what is wrong with it."""
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(GOOD | {"expected": ["answered"]} | change))
    with pytest.raises(DatasetInvalid, match=told):
        load(path)


def test_a_name_that_is_used_twice_is_refused(tmp_path: Path) -> None:
    """Records are found by it."""
    path = tmp_path / "questions.jsonl"
    line = json.dumps(GOOD | {"expected": ["answered"]})
    path.write_text(f"{line}\n{line}\n")
    with pytest.raises(DatasetInvalid, match="line 2: a is there twice"):
        load(path)
    assert FILE.exists()
