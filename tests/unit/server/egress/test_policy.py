"""What may leave for an answer, and for a key in an hour and a day; what the gate decides, remembers and says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retrieval.types import NcbiCall, RawReply
from server.egress import policy
from server.egress.policy import Budget, BudgetLimits, Cost, EgressContext, EgressPolicy, Gate, Kept, Passed
from server.settings.egress import EgressSettings

CONTEXT = EgressContext("r", "1a2b3c4d", "ncbi")
PROSE = NcbiCall("esearch", "gene", {"db": "gene", "term": "my patient coughs"})
IDS = NcbiCall("esummary", "gene", {"db": "gene", "id": "672"})
PUT = NcbiCall("blast_put", "nt", {"PROGRAM": "blastn", "DATABASE": "nt", "QUERY": "ACGTACGTACGT"})
GET = NcbiCall("blast_get", "", {"RID": "ABCDEFGH012"})


class Clock:
    def __init__(self) -> None:
        self.at = 1_000_000.0

    def __call__(self) -> float:
        return self.at


def _budget(clock: Clock, *, answer: int = 10, hour: int = 25, day: int = 40) -> Budget:
    return Budget(BudgetLimits(per_answer=answer, per_hour=hour, per_day=day), clock)


def test_an_answer_has_its_own_budget() -> None:
    """What exceeds it is not counted; a shorter call still fits; another answer starts anew."""
    spent = _budget(Clock())

    assert [spent.spend("a", "k", Cost(number)) for number in (6, 6, 4, 1)] == [
        None,
        "answer_budget",
        None,
        "answer_budget",
    ]
    assert spent.spend("b", "k", Cost(10)) is None


def test_a_forgotten_answer_leaves_its_keys_count() -> None:
    """Its id may come again; the hour's count has grown."""
    spent = _budget(Clock())
    for _ in range(2):
        assert spent.spend("a", "k", Cost(10)) is None
        spent.forget("a")

    assert spent.spend("a", "k", Cost(10)) == "hour_budget"
    assert spent.spend("a", "other", Cost(10)) is None


def test_an_hour_and_a_day_pass() -> None:
    """Counts slide with the clock; a minute counts until all of it has passed."""
    clock = Clock()
    spent = _budget(clock, answer=100)
    assert spent.spend("a", "k", Cost(25)) is None and spent.spend("b", "k", Cost(1)) == "hour_budget"
    clock.at += 3600
    assert spent.spend("c", "k", Cost(1)) == "hour_budget"
    clock.at += 61
    assert spent.spend("d", "k", Cost(15)) is None
    clock.at += 3700
    assert spent.spend("e", "k", Cost(1)) == "day_budget"
    clock.at += 24 * 3600
    assert spent.spend("f", "k", Cost(25)) is None


def test_memory_is_bounded_by_minutes() -> None:
    """However many calls leave in one, and what is older than a day is dropped."""
    clock = Clock()
    spent = _budget(clock, answer=10**6, hour=10**6, day=10**6)
    for _ in range(3000):
        assert spent.spend("a", "k", Cost(1)) is None
        clock.at += 60
    held = spent._keys["k"].minutes

    assert len(held) <= 24 * 60 + 2


def test_a_flood_of_keys_renews_nobodys_budget() -> None:
    """Where all places are taken by keys that have spent within the day, further ones wait."""
    clock = Clock()
    spent = _budget(clock)
    for number in range(policy._MAX_KEYS):
        assert spent.spend(f"a{number}", f"k{number}", Cost(1)) is None

    assert spent.spend("b", "another", Cost(1)) == "day_budget"
    assert spent.spend("c", "k0", Cost(9)) is None
    clock.at += 25 * 3600
    assert spent.spend("d", "another", Cost(1)) is None


def _gate(**settings: Any) -> Gate:
    return Gate(EgressPolicy.of(EgressSettings(**({"mode": "ncbi"} | settings))))


async def test_where_free_text_may_leave_classes_decide() -> None:
    """As a list of classes says; nothing is rebuilt and no budget is spent."""
    open_gate = _gate(profile="open", max_chars_per_answer=1)
    listed = _gate(allow=("free_text", "id"))

    assert await open_gate.judge(PROSE, ("free_text",), CONTEXT) == Passed(PROSE, ("free_text",))
    assert open_gate.spend(CONTEXT, ("free_text",), Cost(1000)) is None
    kept = await listed.judge(PUT, ("sequence",), CONTEXT)
    assert isinstance(kept, Kept) and kept.text.startswith(
        "sequence may not leave this machine (listed allows id, free"
    )
    assert listed.refused["class"] == 1


@pytest.mark.parametrize("settings", [{"profile": "hospital"}, {"allow": ("id", "symbol", "term", "sequence")}])
async def test_without_free_text_only_recognized_calls_pass(settings: dict[str, Any]) -> None:
    """With the hospital profile and with lists; what has no class of its own counts as free text."""
    gate = _gate(**settings)

    kept = await gate.judge(PROSE, (), CONTEXT)
    assert isinstance(kept, Kept) and (kept.classes, kept.param, kept.reason) == (("free_text",), "term", "word")
    gate.hear(CONTEXT.request_id, ["What is gene ID 672?"])
    passed = await gate.judge(IDS, ("id",), CONTEXT)
    assert isinstance(passed, Passed) and (passed.call, passed.classes, passed.cost.characters) == (IDS, ("id",), 4)
    assert gate.refused["word"] == 1 and sum(gate.refused.values()) == 1


async def test_a_request_id_passes_once_ncbi_has_given_it() -> None:
    """To the key whose search it was; the reply of a Get or of a gateway gives none."""
    gate = _gate(profile="hospital")
    reply = RawReply(200, "text/plain", "", 0, rid="ABCDEFGH012")

    assert isinstance(await gate.judge(GET, ("id",), CONTEXT), Kept)
    gate.note_reply(CONTEXT, GET, reply)
    gate.note_reply(CONTEXT, PUT, replace(reply, rid=""))
    assert isinstance(await gate.judge(GET, ("id",), CONTEXT), Kept)
    gate.note_reply(CONTEXT, PUT, reply)
    assert isinstance(await gate.judge(GET, ("id",), CONTEXT), Passed)
    assert isinstance(await gate.judge(GET, ("id",), replace(CONTEXT, key_id="another")), Kept)


def test_a_spent_budget_is_told_with_its_remedy() -> None:
    """The classes are those of the call: they are what did not leave."""
    gate = _gate(profile="hospital", max_chars_per_answer=5)

    assert gate.spend(CONTEXT, ("id",), Cost(5)) is None
    kept = gate.spend(CONTEXT, ("id",), Cost(1))
    assert kept is not None and (kept.classes, kept.reason) == (("id",), "answer_budget")
    assert kept.text.endswith("for one answer are spent; ask in a new request")
