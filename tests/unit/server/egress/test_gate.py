"""What the gate decides by the profile, what it remembers of replies, and what its text says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retrieval.types import NcbiCall, RawReply
from server.egress.gate import Gate, Kept, Passed
from server.egress.policy import EgressContext, EgressPolicy
from server.settings.egress import EgressSettings

CONTEXT = EgressContext("r", "1a2b3c4d", "ncbi")
PROSE = NcbiCall("esearch", "gene", {"db": "gene", "term": "my patient coughs"})
IDS = NcbiCall("esummary", "gene", {"db": "gene", "id": "672"})
PUT = NcbiCall("blast_put", "nt", {"PROGRAM": "blastn", "DATABASE": "nt", "QUERY": "ACGTACGTACGT"})
GET = NcbiCall("blast_get", "", {"RID": "ABCDEFGH012"})


def _gate(**settings: Any) -> Gate:
    return Gate(EgressPolicy.of(EgressSettings(**({"mode": "ncbi"} | settings))))


async def test_where_free_text_may_leave_classes_decide() -> None:
    """As a list of classes says; nothing is rebuilt and no budget is spent."""
    open_gate = _gate(profile="open", max_chars_per_answer=1)
    listed = _gate(allow=("free_text", "id"))

    assert await open_gate.judge(PROSE, ("free_text",), "") == Passed(PROSE, ("free_text",))
    assert open_gate.spend(CONTEXT, ("free_text",), 1000) is None
    kept = await listed.judge(PUT, ("sequence",), "")
    assert isinstance(kept, Kept) and kept.text.startswith(
        "sequence may not leave this machine (listed allows id, free"
    )
    assert listed.refused["class"] == 1


@pytest.mark.parametrize("settings", [{"profile": "hospital"}, {"allow": ("id", "symbol", "term", "sequence")}])
async def test_without_free_text_only_recognized_calls_pass(settings: dict[str, Any]) -> None:
    """With the hospital profile and with lists; what has no class of its own counts as free text."""
    gate = _gate(**settings)

    kept = await gate.judge(PROSE, (), "k")
    assert isinstance(kept, Kept) and (kept.classes, kept.param, kept.reason) == (("free_text",), "term", "word")
    assert await gate.judge(IDS, ("id",), "k") == Passed(IDS, ("id",), 4)
    assert gate.refused["word"] == 1 and sum(gate.refused.values()) == 1


async def test_a_request_id_passes_once_ncbi_has_given_it() -> None:
    """To the key whose search it was; the reply of a Get or of a gateway gives none."""
    gate = _gate(profile="hospital")
    reply = RawReply(200, "text/plain", "", 0, rid="ABCDEFGH012")

    assert isinstance(await gate.judge(GET, ("id",), CONTEXT.key_id), Kept)
    gate.note_reply(CONTEXT, GET, reply)
    gate.note_reply(CONTEXT, PUT, replace(reply, rid=""))
    assert isinstance(await gate.judge(GET, ("id",), CONTEXT.key_id), Kept)
    gate.note_reply(CONTEXT, PUT, reply)
    assert isinstance(await gate.judge(GET, ("id",), CONTEXT.key_id), Passed)
    assert isinstance(await gate.judge(GET, ("id",), "another"), Kept)


def test_a_spent_budget_is_told_with_its_remedy() -> None:
    """The classes are those of the call: they are what did not leave."""
    gate = _gate(profile="hospital", max_chars_per_answer=5)

    assert gate.spend(CONTEXT, ("id",), 5) is None
    kept = gate.spend(CONTEXT, ("id",), 1)
    assert kept is not None and (kept.classes, kept.reason) == (("id",), "answer_budget")
    assert kept.text.endswith("for one answer are spent; ask in a new request")
