"""The rounds of i-MedRAG without an engine: texts in, queries and stops out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from server.methods.i_medrag.rounds import Bounds, Pair, Rounds, Sizes, plan_form, plan_grammar

QUESTION = "What is the treatment?"


def fresh(rounds: int = 4, queries: int = 3, *, adaptive: bool = True, letters: str = "") -> Rounds:
    return Rounds(Bounds(rounds, queries, adaptive, letters), QUESTION)


def plan(*queries: str, **more: Any) -> str:
    return json.dumps({"analysis": "so far", **more, "queries": list(queries)})


def after(rounds: Rounds, *written: str) -> Rounds:
    """Each text as the plan of a round whose queries are all answered, but for the last one's."""
    for place, text in enumerate(written):
        rounds = rounds.planned(text)
        if place < len(written) - 1:
            rounds = rounds.answered([Pair(query, "answered", "yes") for query in rounds.plans[-1].queries])
    return rounds


def test_queries_are_taken_from_the_plan() -> None:
    """Numbering and line breaks are no part of them."""
    rounds = fresh().planned(plan("1. What is\n A?", "- What is B?"))
    assert rounds.plans[0].queries == ("What is A?", "What is B?")
    assert rounds.plans[0].analysis == "so far" and rounds.stop == ""


def test_no_more_than_n_are_asked() -> None:
    """Of ten, the first ones; repeated, empty and endless ones do not count."""
    rounds = fresh().planned(plan("a?", "A ?", "", " ?", "x" * 500, *(f"q{n}" for n in range(8))))
    assert rounds.plans[0].queries == ("a?", "q0", "q1")
    reasons = [reason for _, reason in rounds.plans[0].dropped]
    assert reasons == ["asked before", "empty", "empty", "too long"] + ["one too many"] * 6


def test_what_was_asked_is_not_asked_again() -> None:
    """A round of nothing else ends an adaptive run: the next would be the same. The paper's fixed rounds go on."""
    rounds = after(fresh(), plan("What is A?"), plan("what is a"))
    assert rounds.plans[1].queries == () and rounds.stop == "repeated"
    fixed = after(fresh(adaptive=False), plan("What is A?"), plan("what is a", "What is a?"))
    assert fixed.plans[1].queries == ("what is a",) and fixed.stop == ""


def test_what_failed_may_be_asked_again() -> None:
    """A search that failed once need not fail twice."""
    rounds = fresh().planned(plan("a")).answered([Pair("a", "failed")]).planned(plan("a"))
    assert rounds.plans[1].queries == ("a",)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "## Queries\n1. What?",
        "[]",
        "null",
        '{"queries": "What?"}',
        '{"queries": [1, null]}',
        '{"analysis": 3}',
        "{" * 5000,
        '{"queries": [__import__("os").system("true")]}',
        "[[" * 50_000,
    ],
)
def test_a_plan_of_another_form_cannot_end_the_run(written: str) -> None:
    """The first round asks the question itself; a later one stops, and says why."""
    first = fresh().planned(written)
    assert first.plans[0].queries == (QUESTION,) and first.stop == ""
    later = after(fresh(), plan("a"), written)
    assert later.plans[1].queries == () and later.stop == "malformed"


def test_json_in_other_text_is_found() -> None:
    """As an engine without grammars may write it."""
    assert fresh().planned("Sure! ```json\n" + plan("a?") + "\n```").plans[0].queries == ("a?",)


def test_enough_ends_an_adaptive_run_that_has_asked() -> None:
    """Never before the first round, never a fixed one."""
    assert fresh().planned(plan("a", enough=True)).stop == ""
    assert fresh().planned(plan(enough=True)).plans[0].queries == (QUESTION,)
    assert after(fresh(), plan("a"), plan(enough=True)).stop == "enough"
    assert after(fresh(adaptive=False), plan("a"), plan("b", enough=True)).stop == ""


def test_a_stable_choice_ends_an_adaptive_run() -> None:
    """After two rounds of answers; a choice that no answer stands behind does not count."""
    texts = [plan("a", choice="B"), plan("b", choice="B"), plan("c", choice="B")]
    assert after(fresh(letters="ABC"), *texts[:2]).stop == ""
    assert after(fresh(letters="ABC"), *texts).stop == "stable"
    assert after(fresh(letters="ABC"), *texts[:2], plan("c", choice="C")).stop == ""
    assert after(fresh(letters="ABC"), texts[0], plan("b", choice="Z"), plan("c", choice="Z")).stop == ""
    assert after(fresh(letters="ABC", adaptive=False), *texts).stop == ""


def test_rounds_are_bounded() -> None:
    """The last one's answers are the end."""
    rounds = fresh(rounds=1).planned(plan("a")).answered([Pair("a", "answered", "x")])
    assert rounds.stop == "rounds"


def test_the_grammar_asks_for_what_the_round_can_use() -> None:
    """The first round must ask; letters only where there are choices. What it lets through is JSON."""
    rounds = fresh(queries=2, letters="AB")
    later = after(rounds, plan("a"), "")
    fixed = after(fresh(queries=2, adaptive=False), plan("a"), "")
    asks = '{"analysis": "a, b: {c}", "queries": ["What?", "Why?"]}'
    ends = '{"analysis": "", "choice": "B", "enough": true, "queries": []}'
    none = '{"analysis": "x", "queries": []}'
    cases = {asks: (True, False, True), ends: (False, True, False), none: (False, False, False)}
    for text, fits in cases.items():
        json.loads(text)
        assert tuple(matches(one, text) for one in (rounds, later, fixed)) == fits
    assert not matches(rounds, '{"analysis": "x", "queries": ["a", "b", "c"]}')
    assert matches(rounds, '{"analysis": "x", "queries": ["a"]}') and not matches(
        fixed, '{"analysis": "x", "queries": ["a"]}'
    )
    assert not matches(rounds, '{"analysis":  "x", "queries": ["a"]}')
    assert not matches(rounds, '{"analysis": "' + "x" * 101 + '", "queries": ["a"]}')
    assert plan_form(rounds) == '{"analysis": "…", "queries": ["…"]}'


def matches(rounds: Rounds, text: str) -> bool:
    grammar = plan_grammar(rounds, Sizes(100, 50))
    return grammar.kind == "regex" and re.fullmatch(grammar.spec, text) is not None
