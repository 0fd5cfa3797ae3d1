"""The plain model calls the site's tools, reads their replies and goes on, within bounds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from models.decoding.types import LoopUsage, Tool
from server.methods.base import (
    AnswerRequest,
    CallMade,
    CallReplied,
    Done,
    Event,
    Message,
    Step,
    TextDelta,
    ToolCalled,
    ToolsListed,
)
from server.methods.shared.tool_loop import MAX_CALLS, MAX_ROUNDS, OfferedTools, ToolAnswer, with_tools

FIND = Tool("shelf__find", {"function": {"description": "Find notes"}}, {"type": "object"})


class Box:
    """A site whose tool finds something, or fails; ``faults`` are servers that do."""

    names = ("shelf",)

    def __init__(self, fault: str = "", tools: Sequence[Tool] = (FIND,)) -> None:
        dead = [OfferedTools("dead", fault=fault)] if fault else []
        self._offered = [*dead, OfferedTools("shelf", tuple(tools))]
        self.ran: list[str] = []

    async def offered(self, ask: AnswerRequest) -> list[OfferedTools]:
        return self._offered

    async def run(self, ask: AnswerRequest, name: str, arguments: str) -> ToolAnswer:
        self.ran.append(arguments)
        return ToolAnswer("error: down", "down") if "fail" in arguments else ToolAnswer("found it")


class Model:
    """Call ``rounds`` in turn, then answer; keeps the requests that it got."""

    def __init__(self, *rounds: Sequence[str]) -> None:
        self._rounds = list(rounds)
        self.asked: list[AnswerRequest] = []

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        self.asked.append(ask)
        calls = self._rounds.pop(0) if self._rounds and ask.tools else ()
        for place, arguments in enumerate(calls):
            yield ToolCalled(f"id{place}", "shelf__find", arguments, place)
        text = "" if calls else "the answer"
        yield TextDelta(text)
        usage = LoopUsage(prompt_tokens=1, sampled_tokens=1)
        yield Done(answer=text, finish_reason="stop", stop_reason=None, usage=usage)


async def run(model: Model, box: Box) -> list[Event]:
    ask = AnswerRequest(request_id="r", messages=(Message("user", "what?"),), site_tools=("shelf",))
    return [event async for event in with_tools(model.answer, ask, box)]


def last(events: list[Event]) -> Done:
    assert isinstance(events[-1], Done) and sum(isinstance(event, Done) for event in events) == 1
    return events[-1]


def replies(events: list[Event]) -> list[CallReplied]:
    return [event for event in events if isinstance(event, CallReplied)]


async def test_the_model_reads_what_its_calls_found() -> None:
    model, box = Model(['{"q": "x"}']), Box()
    events = await run(model, box)
    assert last(events).answer == "the answer" and last(events).usage.prompt_tokens == 2
    assert not any(isinstance(event, ToolCalled) for event in events)
    shown = {"name": "find", "description": "Find notes", "input_schema": {"type": "object"}}
    assert events[0] == ToolsListed("shelf", (shown,))
    assert CallMade("mcp:shelf__find", 0, '{"q": "x"}') in events
    (reply,) = replies(events)
    assert (reply.url, reply.status) == ("mcp:shelf__find", "ok")
    call, told = model.asked[1].messages[1:]
    assert (call.role, call.tool_calls[0]["function"]["arguments"]) == ("assistant", {"q": "x"})
    assert (told.role, told.content, told.tool_call_id) == ("tool", "found it", "id0")


async def test_a_failure_is_a_step_and_told_to_the_model() -> None:
    events = await run(model := Model(['{"q": "fail"}']), Box("down"))
    steps = [event.text for event in events if isinstance(event, Step)]
    assert steps == ["the tools of dead failed: down", "shelf__find failed: down"]
    assert model.asked[1].messages[-1].content == "error: down"
    assert last(events).answer == "the answer"


async def test_rounds_and_calls_are_bounded() -> None:
    """In the last round the model has no tools, so that it answers; of too many calls at once the rest is refused."""
    many: Any = [['{"q": "x"}'] * (MAX_CALLS + 1)] * 20
    events = await run(model := Model(*many), box := Box())
    assert len(model.asked) == MAX_ROUNDS and model.asked[-1].tools is None
    assert len(box.ran) == MAX_CALLS * (MAX_ROUNDS - 1)
    assert sum(reply.status == "error" for reply in replies(events)) == MAX_ROUNDS - 1
    assert last(events).answer == "the answer"


async def test_without_tools_the_model_answers_alone() -> None:
    events = await run(model := Model(["{}"]), Box("down", tools=()))
    assert len(model.asked) == 1 and last(events).answer == "the answer"
