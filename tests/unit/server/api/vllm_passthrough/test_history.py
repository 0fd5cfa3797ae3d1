"""Items of earlier replies for vLLM's own layer, which fails on some of them."""

from __future__ import annotations

from typing import Any

import pytest

from models.errors import ArrowheadError
from server.api.vllm_passthrough.checks import check_plain
from server.api.vllm_passthrough.history import readable_history
from server.errors import UNSUPPORTED_FIELD, RequestError

HI, BYE = {"role": "user", "content": "hi"}, {"role": "user", "content": "b"}
SEARCH = {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "x"}}
REFUSAL = {"type": "refusal", "refusal": "no"}
TEXT = {"type": "output_text", "text": "yes", "annotations": []}


def answer(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "status": "completed", "id": "m", "content": list(parts)}


@pytest.mark.parametrize(
    ("parts", "text"), [((REFUSAL,), "no"), ((TEXT,), "yes"), ((TEXT, REFUSAL), "yes\nno"), ((), "")]
)
def test_an_answer_is_one_text(parts: tuple[dict[str, Any], ...], text: str) -> None:
    """The layer reads the first part alone, and fails where it has no text, or there is none."""
    body = readable_history({"model": "m", "input": [HI, answer(*parts), BYE]})
    assert body["input"] == [HI, {"type": "message", "role": "assistant", "content": text}, BYE]


def test_searches_and_steps_of_a_method_are_passed_over() -> None:
    """A conversation that began with a method can go on with the plain model; its own reasoning stays."""
    steps = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "I search."}]}
    thoughts = steps | {"summary": [], "content": [{"type": "reasoning_text", "text": "So it is."}]}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    own = {"type": "open_webui:code_interpreter", "id": "o"}
    body = readable_history({"model": "m", "input": [HI, steps, SEARCH, own, thoughts, call, BYE]})
    assert body["input"] == [HI, thoughts, call, BYE]


@pytest.mark.parametrize("body", [{"model": "m"}, {"input": "hi"}, {"input": [3, None, {"type": 3}, {"role": "x"}]}])
def test_what_is_no_history_is_the_layers_to_refuse(body: dict[str, Any]) -> None:
    """As it is."""
    assert readable_history(body) == body


@pytest.mark.parametrize("name", ["guided_json", "guided_regex", "guided_choice", "guided_grammar"])
def test_fields_that_vllm_no_longer_knows_name_their_successor(name: str) -> None:
    """It ignores them and answers with free text."""
    with pytest.raises(RequestError, match="structured_outputs", check=UNSUPPORTED_FIELD.is_of) as caught:
        check_plain({"model": "m", "messages": [HI], name: ["positive", "negative"]}, 8)
    assert caught.value.param == name


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {"const": 1}}}}},
        {"structured_outputs": {"json": {"not": {"const": 1}}}},
        {"structured_outputs": {"json": '{"not": {"const": 1}}'}},
        {"text": {"format": {"type": "json_schema", "name": "x", "schema": {"not": {"const": 1}}}}},
        {"tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {"not": {}}}}]},
    ],
)
def test_a_schema_that_vllm_does_not_keep_is_refused(fields: dict[str, Any]) -> None:
    """It refuses some keywords itself, and ignores this one."""
    with pytest.raises(ArrowheadError, match="the JSON schema has not which is not enforced"):
        check_plain({"model": "m"} | fields, 8)
