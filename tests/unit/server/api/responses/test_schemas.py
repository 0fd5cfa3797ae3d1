"""Bodies of the Responses API: whatever is sent is taken or refused by name."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from models.errors import ArrowheadError
from server.api.responses.schemas import Fields, parse_responses

_SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=5)
_KINDS = st.sampled_from(["message", "reasoning", "input_text", "output_text", "input_image", "function_call", "x"])
_KEYS = st.sampled_from(["type", "role", "content", "text", "format", "id", "status", "effort", "annotations"])
_ROLES = st.sampled_from(["user", "assistant", "developer", "robot"])
_VALUES = st.recursive(
    _SCALARS | _KINDS | _ROLES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)
_OTHERS = ["input", "tools", "tool_choice", "store", "background", "reasoning", "truncation", "conversation", "colour"]
_NAMES = st.sampled_from([*Fields.model_fields, *_OTHERS])


@given(st.dictionaries(_NAMES, _VALUES, max_size=5), st.lists(_VALUES, max_size=3))
def test_any_body_is_taken_or_refused(body: dict[str, Any], items: list[Any]) -> None:
    """Nothing else is raised, and what is refused says which field, in a message that names it."""
    try:
        parse_responses({"model": "m", "input": [*items, {"role": "user", "content": "x"}]} | body)
    except ArrowheadError as error:
        assert error.param is not None
        assert error.message


def test_instructions_come_first() -> None:
    """As a system message before the history, whose developer is one too."""
    items = [{"role": "developer", "content": "b"}, {"role": "user", "content": [{"type": "input_text", "text": "c"}]}]
    request = parse_responses({"model": "m", "instructions": "a", "input": items})

    assert [(message.role, message.content) for message in request.messages] == [
        ("system", "a"),
        ("system", "b"),
        ("user", "c"),
    ]


def test_whole_numbers_are_numbers() -> None:
    """JSON has one kind; a temperature of 1 is one."""
    request = parse_responses({"model": "m", "input": "x", "temperature": 1, "top_p": 1})

    assert (request.sampling.temperature, request.sampling.top_p) == (1.0, 1.0)
