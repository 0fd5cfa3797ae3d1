"""Let the plain model call the site's tools: the server makes the calls and the model goes on with their replies."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, Protocol

from models.decoding.types import Tool, ToolUse
from server.methods.base import (
    AnswerRequest,
    CallMade,
    CallReplied,
    Done,
    Event,
    Message,
    Step,
    ToolCalled,
    ToolsListed,
    add_usage,
)

MAX_ROUNDS: Final = 6
MAX_CALLS: Final = 8
# Between the names of a server and its tool, where the model calls it.
SEPARATOR: Final = "__"
_ADDRESS: Final = "mcp:"


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """Hold the tools of one server that the model may call; ``fault`` is why there are none."""

    server: str
    tools: tuple[Tool, ...] = ()
    fault: str = ""


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

    async def offered(self, ask: AnswerRequest) -> Sequence[OfferedTools]: ...

    async def run(self, ask: AnswerRequest, name: str, arguments: str) -> ToolAnswer: ...


def servers_of(ask: AnswerRequest) -> list[str]:
    """Return the names of the servers whose tools a request wants, each once."""
    return list(dict.fromkeys(one.partition("/")[0] for one in ask.site_tools))


def tool_at(address: str) -> tuple[str, str]:
    """Return the server and the tool of a call's address."""
    server, _, tool = address.removeprefix(_ADDRESS).partition(SEPARATOR)
    return server, tool


Answer = Callable[[AnswerRequest], AsyncGenerator[Event, None]]


async def with_tools(answer: Answer, ask: AnswerRequest, box: ToolBox) -> AsyncGenerator[Event, None]:
    """Yield the events of an answer for which the model may call tools, in at most ``MAX_ROUNDS`` rounds.

    ``answer`` is the plain model's, which reports the calls that it writes. In the last round it has no tools.
    """
    tools: tuple[Tool, ...] = ()
    for one in await box.offered(ask):
        tools += one.tools
        yield ToolsListed(one.server, tuple(map(_described, one.tools)), one.fault)
        if one.fault:
            yield Step(f"the tools of {one.server} failed: {one.fault}")
    use = ToolUse(tools=tools, shown=tools) if tools else None
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
            ordinal, url = next(ordinals), f"{_ADDRESS}{call.name}"
            yield CallMade(url, ordinal, call.arguments)
            began = time.monotonic()
            told = await box.run(ask, call.name, call.arguments) if place < MAX_CALLS else _TOO_MANY
            yield _replied(url, ordinal, told, time.monotonic() - began)
            if told.fault:
                yield Step(f"{call.name} failed: {told.fault}")
            messages = (*messages, Message("tool", told.text, tool_call_id=call.id))
    if done is not None:
        yield done


_TOO_MANY: Final = ToolAnswer(f"error: at most {MAX_CALLS} calls at once", f"at most {MAX_CALLS} calls at once")


def _described(tool: Tool) -> dict[str, object]:
    about = tool.definition["function"]["description"]
    return {"name": tool.name.partition(SEPARATOR)[2], "description": about, "input_schema": dict(tool.parameters)}


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
