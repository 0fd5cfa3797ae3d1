"""Bodies in Anthropic's form: what is taken, what is passed over, and what a refusal names."""

from __future__ import annotations

from typing import Any

import pytest

from models.errors import ArrowheadError
from server.api.messages.schemas import parse_count, parse_message
from server.methods.base import Message

SAID = [{"role": "user", "content": "hello"}]


def _body(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 5, "messages": SAID} | fields


def test_system_and_turns_become_one_conversation() -> None:
    """Blocks of an earlier answer that say nothing to a model are left out."""
    answer = [
        {"type": "thinking", "thinking": "I search.", "signature": ""},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "text", "text": "PSMB10.", "citations": None},
    ]
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    turns = [*SAID, {"role": "assistant", "content": answer}, {"role": "user", "content": "And its id?"}]

    assert parse_message(_body(system=system, messages=turns)).conversation() == (
        Message("system", "Be brief."),
        Message("user", "hello"),
        Message("assistant", "PSMB10."),
        Message("user", "And its id?"),
    )


def test_sampling_and_thinking_are_read() -> None:
    body = parse_message(_body(temperature=1, top_p=0.5, top_k=3, stop_sequences=["\n"], thinking={"type": "adaptive"}))
    shape = body.sampling

    assert (shape.max_tokens, shape.temperature, shape.top_p, shape.top_k, shape.stop) == (5, 1.0, 0.5, 3, ("\n",))
    assert body.shows_thinking and not parse_message(_body()).shows_thinking


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": 2}, "temperature"),
        ({"tools": [{"name": "x"}]}, "tools"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": ""}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0]"),
        ({"messages": [*SAID, {"role": "user", "content": [{"type": "tool_result"}]}]}, "messages[1].content[0]"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_a_refusal_names_the_field(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ArrowheadError) as refused:
        parse_message(_body(**fields))
    assert refused.value.param == param


def test_a_count_needs_no_length() -> None:
    assert parse_count({"model": "m", "messages": SAID}).conversation() == (Message("user", "hello"),)
    with pytest.raises(ArrowheadError):
        parse_count([])
