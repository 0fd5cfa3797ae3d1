"""Events become the blocks of a message, and the stream's events build the same blocks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from models.decoding.types import LoopUsage
from server.api.messages.blocks import MessageBlocks
from server.methods.base import CallMade, CallReplied, Done, Event, Evidence, Reference, Retrieved, Step, TextDelta

URL = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esearch.fcgi?db=gene&term=LMP10"
RECORD: dict[str, Any] = {"endpoint": "esearch", "num_records": 0}
REFERENCE = Reference(
    number=1, title="Gene 5699", url="https://www.ncbi.nlm.nih.gov/gene/5699", start=7, end=10, text="PSMB10"
)
DONE = Done(answer="PSMB10", finish_reason="stop", stop_reason=None, usage=LoopUsage())
LOOKED_UP: list[Event] = [
    Step("I search."),
    CallMade(URL, 0),
    CallReplied(URL, 0, "ok", "1 id", 0.1, 5, RECORD),
    TextDelta("PSMB10"),
    TextDelta(" [1]"),
    Evidence((REFERENCE, REFERENCE)),
    DONE,
]


def _streamed(wires: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks that a client builds of the events; each event must be of the block that is open."""
    blocks: list[dict[str, Any]] = []
    is_open = False
    for wire in wires:
        if wire["type"] == "content_block_start":
            assert not is_open and wire["index"] == len(blocks)
            blocks.append(json.loads(json.dumps(wire["content_block"])))
            is_open = True
            continue
        assert is_open and wire["index"] == len(blocks) - 1
        if wire["type"] == "content_block_stop":
            is_open = False
            continue
        delta, block = wire["delta"], blocks[-1]
        if delta["type"] == "citations_delta":
            block["citations"] = [*(block["citations"] or ()), delta["citation"]]
        elif delta["type"] == "input_json_delta":
            block["input"] = json.loads(delta["partial_json"])
        else:
            kind = delta["type"].removesuffix("_delta")
            block[kind] += delta[kind]
    assert not is_open
    return blocks


def _blocks(events: Sequence[Event], *, shows_thinking: bool = False) -> list[dict[str, Any]]:
    blocks = MessageBlocks("x", shows_thinking=shows_thinking)
    wires = [wire for event in events for wire in blocks.feed(event)] + blocks.end()
    assert _streamed(wires) == blocks.content
    return blocks.content


def test_a_call_is_a_search_with_its_result_and_the_answer_cites_once() -> None:
    asked, found, text = _blocks(LOOKED_UP)

    assert (asked["type"], asked["input"]) == ("server_tool_use", {"query": "esearch gene: LMP10"})
    assert (found["type"], found["tool_use_id"]) == ("web_search_tool_result", asked["id"])
    assert text["text"] == "PSMB10 [1]"
    assert [(one["url"], one["cited_text"]) for one in text["citations"]] == [(REFERENCE.url, "PSMB10")]


def test_steps_are_thinking_where_it_is_asked_for() -> None:
    first = _blocks(LOOKED_UP, shows_thinking=True)[0]
    assert first == {"type": "thinking", "thinking": "I search.\n", "signature": ""}


def test_what_happens_while_the_answer_is_written_stands_behind_it() -> None:
    events: list[Event] = [TextDelta("a"), Retrieved(("q", "r"), ("http://h/1",)), TextDelta("b"), DONE]
    text, asked, found = _blocks(events)

    assert text["text"] == "ab"
    assert asked["input"] == {"query": "q", "queries": ["q", "r"]}
    assert [hit["url"] for hit in found["content"]] == ["http://h/1"]


@pytest.mark.parametrize("status", ["error", "refused"])
def test_a_failed_call_says_so(status: Any) -> None:
    events: list[Event] = [CallMade(URL, 0), CallReplied(URL, 0, status, "no", 0.1, 0, {}), DONE]
    assert _blocks(events)[1]["content"] == {"type": "web_search_tool_result_error", "error_code": "unavailable"}


def test_an_answer_that_ends_early_is_whole_too() -> None:
    """A call without its reply has failed, and a message has a text block."""
    asked, text, failed = _blocks([CallMade(URL, 0)])
    assert (asked["type"], text["text"], failed["tool_use_id"]) == ("server_tool_use", "", asked["id"])
