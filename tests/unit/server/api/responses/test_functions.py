"""Function tools of the Responses API: read in OpenAI's flat form, with calls and results as items of the input."""

from __future__ import annotations

from typing import Any

import pytest

from models.errors import ArrowheadError
from server.api.responses.functions import without_calls
from server.api.responses.schemas import parse_responses

CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"gene": "LMP10"}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "5699"}


def test_a_call_belongs_to_the_turn_that_made_it() -> None:
    """As chat templates have them: text and calls of one turn together, and each result a message of its own."""
    said = {"role": "assistant", "content": "I look it up."}
    second = CALL | {"call_id": "c2"}
    request = parse_responses({"model": "m", "input": [{"role": "user", "content": "x"}, said, CALL, second, RESULT]})

    assert [(one.role, one.content, len(one.tool_calls)) for one in request.messages] == [
        ("user", "x", 0),
        ("assistant", "I look it up.", 2),
        ("tool", "5699", 0),
    ]
    assert request.messages[1].tool_calls[0]["function"] == {"name": "look", "arguments": {"gene": "LMP10"}}


@pytest.mark.parametrize(
    ("choice", "called", "how"),
    [
        (None, ["look", "stop"], "auto"),
        ("required", ["look", "stop"], "required"),
        ({"type": "function", "name": "stop"}, ["stop"], "named"),
        ("none", None, None),
    ],
)
def test_functions_are_those_of_the_choice(choice: Any, called: list[str] | None, how: str | None) -> None:
    tools = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in ("look", "stop")]
    use = parse_responses({"model": "m", "input": "x", "tools": tools, "tool_choice": choice}).tool_use

    assert (None if use is None else sorted(use.names), use and use.choice) == (called, how)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "name": "f"}] * 2}, "tools"),
        (
            {"tools": [{"type": "function", "name": "f"}], "tool_choice": {"type": "function", "name": "g"}},
            "tool_choice",
        ),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"input": [CALL | {"arguments": "["}, RESULT]}, "input[0].arguments"),
        ({"input": [CALL | {"arguments": "[]"}, RESULT]}, "input[0].arguments"),
        ({"input": [RESULT | {"output": None}]}, "input[0].output"),
        ({"input": [CALL]}, "input"),
    ],
)
def test_a_wrong_function_or_call_is_refused(body: dict[str, Any], param: str) -> None:
    with pytest.raises(ArrowheadError) as refused:
        parse_responses({"model": "m", "input": "x"} | body)
    assert refused.value.param is not None and refused.value.param.startswith(param)


def test_a_method_reads_what_was_said_without_calls() -> None:
    said = {"role": "assistant", "content": "I look it up."}
    messages = parse_responses({"model": "m", "input": [{"role": "user", "content": "x"}, said, CALL, RESULT]}).messages

    assert [(one.content, one.tool_calls) for one in without_calls(messages)] == [("x", ()), ("I look it up.", ())]
    assert without_calls(messages[2:]) == []
