"""Let the plain model call the site's tools: the server makes the calls and the model goes on with their replies."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, Protocol

from models.decoding.tool_calls import Tool, ToolUse
from server.methods.base import (
    AnswerRequest,
    CallMade,
    CallReplied,
    Done,
    Event,
    Message,
    Step,
    ToolCalled,
    add_usage,
)

MAX_ROUNDS: Final = 6
MAX_CALLS: Final = 8


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """Hold the tools that the model may call, and which servers failed, one line each."""

    tools: tuple[Tool, ...]
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """Hold what the model reads of a call; ``fault`` is why it failed, "" where it did not."""

    text: str
    fault: str = ""


class ToolBox(Protocol):
    """Know the tools of a site; neither function raises an error of this project."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the servers."""
        ...

    async def offered(self, ask: AnswerRequest) -> OfferedTools: ...

    async def run(self, ask: AnswerRequest, name: str, arguments: str) -> ToolAnswer: ...


Answer = Callable[[AnswerRequest], AsyncGenerator[Event, None]]


async def with_tools(answer: Answer, ask: AnswerRequest, box: ToolBox) -> AsyncGenerator[Event, None]:
    """Yield the events of an answer for which the model may call tools, in at most ``MAX_ROUNDS`` rounds.

    ``answer`` is the plain model's, which reports the calls that it writes. In the last round it has no tools.
    """
    offered = await box.offered(ask)
    for fault in offered.faults:
        yield Step(fault)
    use = ToolUse(tools=offered.tools, shown=offered.tools) if offered.tools else None
    ordinals, done, messages = count(), None, ask.messages
    for number in range(MAX_ROUNDS):
        calls: list[ToolCalled] = []
        asked = replace(ask, messages=messages, site_tools=(), tools=use if number < MAX_ROUNDS - 1 else None)
        async with aclosing(answer(asked)) as events:
            async for event in events:
                match event:
                    case ToolCalled():
                        calls.append(event)
                    case Done():
                        done = event if done is None else replace(event, usage=add_usage(done.usage, event.usage))
                    case _:
                        yield event
        if not calls:
            break
        messages = (*messages, Message("assistant", "", tool_calls=tuple(map(_call_object, calls))))
        for place, call in enumerate(calls):
            ordinal, url = next(ordinals), f"mcp:{call.name}"
            yield CallMade(url, ordinal)
            began = time.monotonic()
            told = await box.run(ask, call.name, call.arguments) if place < MAX_CALLS else _TOO_MANY
            yield _replied(url, ordinal, told, time.monotonic() - began)
            if told.fault:
                yield Step(f"{call.name} failed: {told.fault}")
            messages = (*messages, Message("tool", told.text, tool_call_id=call.id))
    if done is not None:
        yield done


_TOO_MANY: Final = ToolAnswer(f"error: at most {MAX_CALLS} calls at once", f"at most {MAX_CALLS} calls at once")


def _call_object(call: ToolCalled) -> dict[str, object]:
    function = {"name": call.name, "arguments": json.loads(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _replied(url: str, ordinal: int, told: ToolAnswer, seconds: float) -> CallReplied:
    summary = f"error: {told.fault}" if told.fault else f"{len(told.text)} characters"
    return CallReplied(
        url=url,
        ordinal=ordinal,
        status="error" if told.fault else "ok",
        summary=summary,
        seconds=seconds,
        num_tokens=0,
        record={"endpoint": "mcp", "text": told.text},
    )
