"""Define function tools of the Responses API, whose form is flat, and their calls and results as items of a history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from server.api.http_io import Body
from server.api.openai.schemas import (
    MAX_TEXT,
    MAX_TOOLS,
    Arguments,
    FunctionDefinition,
    FunctionMade,
    FunctionName,
    Mode,
    Name,
    ToolCallMade,
    refusal_as,
)
from server.methods.base import Message


class FunctionTool(FunctionDefinition):
    """Offer a function of the client's."""

    type: Literal["function"]


class NamedFunction(FunctionName):
    """Demand a call of one function."""

    type: Literal["function"]


FunctionTools = Annotated[list[FunctionTool], Field(max_length=MAX_TOOLS)]
FunctionChoice = Mode | NamedFunction


class ResponsePart(Body):
    """Provide a text part of a message."""

    type: Literal["input_text", "output_text", "text"]
    text: str = Field(max_length=MAX_TEXT)
    annotations: list[dict[str, Any]] | None = None
    logprobs: list[Any] | None = None
    prompt_cache_breakpoint: dict[str, Any] | None = None


_Part = Annotated[ResponsePart, BeforeValidator(refusal_as("output_text"))]
Content = Annotated[str, Field(max_length=MAX_TEXT)] | list[_Part]


def text_of(content: str | list[ResponsePart]) -> str:
    return content if isinstance(content, str) else "\n".join(part.text for part in content)


class FunctionCall(Body):
    """Repeat a call of a function that the model made."""

    type: Literal["function_call"]
    call_id: str = Field(min_length=1, max_length=128)
    name: Name
    arguments: Arguments
    id: str | None = None
    status: str | None = None

    def to_message(self) -> Message:
        function = FunctionMade(name=self.name, arguments=self.arguments)
        call = ToolCallMade(id=self.call_id, type="function", function=function)
        return Message("assistant", "", (call.to_template(),))


class FunctionResult(Body):
    """Give the result of a call."""

    type: Literal["function_call_output"]
    call_id: str = Field(min_length=1, max_length=128)
    output: Content
    id: str | None = None
    status: str | None = None

    def to_message(self) -> Message:
        return Message("tool", text_of(self.output), tool_call_id=self.call_id)


FUNCTION_ITEMS: Final[Mapping[str, type[FunctionCall | FunctionResult]]] = {
    "function_call": FunctionCall,
    "function_call_output": FunctionResult,
}


def joined(messages: Iterable[Message]) -> list[Message]:
    """Return the messages with calls in the turn of the assistant that made them, as chat templates have them."""
    turns: list[Message] = []
    for message in messages:
        if message.tool_calls and turns and turns[-1].role == "assistant":
            turns[-1] = replace(turns[-1], tool_calls=(*turns[-1].tool_calls, *message.tool_calls))
        else:
            turns.append(message)
    return turns


def without_calls(messages: Iterable[Message]) -> list[Message]:
    """Return the messages without calls and their results, which say nothing to a method."""
    spoken = (one for one in messages if one.tool_call_id is None and (one.content or not one.tool_calls))
    return [replace(one, tool_calls=()) for one in spoken]
