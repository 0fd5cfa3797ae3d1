"""A capable model's answers: both halves well-formed, and what they cite and look up is among the shipped data."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from server.methods.base import METHOD_NAMES

ROOT = Path(__file__).parents[4]
QUESTIONS = ROOT / "scripts" / "evals" / "questions"
GATEWAY = ROOT / "retrieval" / "gateway" / "store" / "sample"
HALVES = ("seen", "unseen", "more_seen", "more_unseen")
METHODS = frozenset({"medrag", "i-medrag", "weiseeule", "clinfo", "kg-rag", "genegpt"})
FIELDS = frozenset({"id", "method", "right", "kind", "question", "answer"})
CITED = re.compile(r"\{T:([^{}]+)\}")
NUMBER = re.compile(r"\[(\d+)\]")
# No prompt of a method holds so many passages: a number from here on cites nothing.
FIRST_IMPOSSIBLE = 80


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (QUESTIONS / f"capable_{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def cells(name: str, *columns: str) -> list[str]:
    with (GATEWAY / name).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [part for row in rows for column in columns for part in row[column].split("|")]


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    return [answer for half in HALVES for answer in lines(half)]


@pytest.fixture(scope="module")
def titles() -> list[str]:
    return [passage["title"] for name in ("passages", "more_passages") for passage in lines(name)]


def test_passages_have_the_fields_of_a_corpus_and_ids_and_titles_of_their_own(titles: list[str]) -> None:
    """The content is the passage, the contents are title and content."""
    passages = [*lines("passages"), *lines("more_passages")]
    assert len(passages) >= 100
    assert len({passage["id"] for passage in passages}) == len(passages) == len(set(titles))
    for passage in passages:
        assert set(passage) == {"id", "title", "content", "contents"}
        assert passage["contents"] == f"{passage['title']}. {passage['content']}"


def test_answers_have_all_fields_and_a_known_method(answers: list[dict[str, Any]]) -> None:
    """Only an answer of GeneGPT has a term to search."""
    assert set(METHOD_NAMES) >= METHODS
    for answer in answers:
        extra = {"search_term"} if answer["method"] == "genegpt" else set()
        assert set(answer) == FIELDS | extra, answer["id"]
        assert answer["method"] in METHODS
        assert isinstance(answer["right"], bool)
        assert all(answer[name].strip() for name in (FIELDS | extra) - {"right"}), answer["id"]


def test_ids_are_unique_over_both_halves(answers: list[dict[str, Any]]) -> None:
    """An answer belongs to one half."""
    assert len({answer["id"] for answer in answers}) == len(answers)


def test_a_cited_title_is_one_passage_or_begins_one_article(answers: list[dict[str, Any]], titles: list[str]) -> None:
    """Clinfo.ai cites articles of the gateway's sample by the beginning of their title."""
    articles = cells("articles.tsv", "title")
    for answer in answers:
        for title in CITED.findall(answer["answer"]):
            if answer["method"] == "clinfo":
                assert sum(article.startswith(title) for article in articles) == 1, (answer["id"], title)
            else:
                assert title in titles, (answer["id"], title)


def test_a_bare_number_is_cited_only_where_the_fault_is_that_it_does_not_exist(answers: list[dict[str, Any]]) -> None:
    """Such a number is above any that a prompt has."""
    for answer in answers:
        numbers = [int(number) for number in NUMBER.findall(answer["answer"])]
        assert bool(numbers) == (answer["kind"] == "nonexistent passage"), answer["id"]
        assert all(number >= FIRST_IMPOSSIBLE for number in numbers), answer["id"]


def test_a_searched_gene_is_in_the_sample(answers: list[dict[str, Any]]) -> None:
    """Terms of two genes join them with OR."""
    names = set(cells("genes.tsv", "symbol", "aliases"))
    for answer in answers:
        for name in answer.get("search_term", "").split(" OR "):
            assert not name or name in names, answer["id"]


def test_the_halves_are_equal_by_method_and_verdict() -> None:
    """150 answers, 90 of them right; no group differs by more than one between the halves."""
    seen, unseen = (Counter((answer["method"], answer["right"]) for answer in lines(half)) for half in HALVES[:2])
    assert seen.total() == unseen.total() == 75
    assert sum(seen[method, True] for method in METHODS) == sum(unseen[method, True] for method in METHODS) == 45
    assert set(seen) == set(unseen) == {(method, right) for method in METHODS for right in (True, False)}
    assert all(abs(seen[group] - unseen[group]) <= 1 for group in seen)


def test_the_further_halves_are_equal_by_method_and_verdict() -> None:
    """200 answers, 120 of them right."""
    seen, unseen = (Counter((answer["method"], answer["right"]) for answer in lines(half)) for half in HALVES[2:])
    assert seen.total() + unseen.total() == 200
    assert sum(halves[method, True] for halves in (seen, unseen) for method in METHODS) == 120
    assert all(abs(seen[group] - unseen[group]) <= 1 for group in seen | unseen)
