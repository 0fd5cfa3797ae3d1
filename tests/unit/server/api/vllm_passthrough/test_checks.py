"""What may go to the engine's own OpenAI layer."""

from __future__ import annotations

from typing import Any

import pytest

from models.errors import ArrowheadError
from server.api.vllm_passthrough.checks import REFUSED, check_plain

USER = [{"role": "user", "content": "hi"}]


def _deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"n": 8, "logprobs": True, "top_logprobs": 20, "temperature": 0, "stop": ["a"]},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]},
        {"response_format": _deep(5)},
        {"structured_outputs": {"regex": r"\d{4}-\d{2}"}},
        {"priority": 0, "vllm_xargs": None, "prompt_embeds": None},
        {"messages": [{"role": "assistant", "content": None, "audio": None, "tool_calls": []}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "an image_url"}]}]},
    ],
)
def test_ordinary_requests_pass(fields: dict[str, Any]) -> None:
    """All that a text model of ``vllm serve`` is asked for."""
    body = {"model": "m", "messages": USER} | fields
    assert check_plain(body, 8) == body


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_steers_the_engine_is_refused_by_name(name: str) -> None:
    """The message begins with the field and says why."""
    with pytest.raises(ArrowheadError, match=f"^{name}: ") as caught:
        check_plain({"model": "m", "messages": USER, name: "x"}, 8)
    assert caught.value.param == name


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ({"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}, "messages"),
        ({"type": "input_audio", "input_audio": {"data": ""}}, "messages"),
        ({"image_url": "http://127.0.0.1/"}, "messages"),
        ({"type": "input_image", "image_url": "file:///etc/passwd"}, "input"),
        ({"type": "input_file", "file_url": "http://127.0.0.1/"}, "input"),
        ({"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/"}}, "messages"),
        ({"type": "tool_result", "content": [{"type": "image", "source": {}}]}, "messages"),
        ({"type": "function_call_output", "output": [{"type": "input_image", "image_url": "x"}]}, "input"),
    ],
)
def test_no_part_that_could_be_fetched_passes(part: dict[str, Any], name: str) -> None:
    """At any depth at which a message can hold one."""
    with pytest.raises(ArrowheadError, match="this server answers text"):
        check_plain({"model": "m", name: [{"role": "user", "content": [part]}]}, 8)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 9}, "n"),
        ({"best_of": 1e9}, "best_of"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"prompt_logprobs": -1}, "prompt_logprobs"),
        ({"prompt": ["x"] * 65}, "prompt"),
        ({"logit_bias": {str(i): 1 for i in range(2000)}}, "logit_bias"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"allowed_token_ids": list(range(1025))}, "allowed_token_ids"),
        ({"stop_token_ids": list(range(129)), "min_tokens": 1}, "stop_token_ids"),
        ({"bad_words": ["x"] * 129}, "bad_words"),
        ({"bad_words": ["x" * 9000]}, "bad_words"),
        ({"response_format": _deep(30)}, "response_format"),
        ({"response_format": {"enum": ["x" * 70_000]}}, "response_format"),
        ({"structured_outputs": {"choice": ["x"] * 3000}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a" * 5000}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "(a{100}){100}"}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a{1,1000000}"}}, "structured_outputs"),
        ({"response_format": {"schema": {"type": "array", "maxItems": 10**9}}}, "response_format"),
        ({"tools": [{"function": {"parameters": {"properties": {"a": {"pattern": "(x{999}){9}"}}}}}]}, "tools"),
    ],
)
def test_what_costs_more_than_it_says_is_refused(fields: dict[str, Any], param: str) -> None:
    """Numbers, lists and shapes have bounds of their own."""
    with pytest.raises(ArrowheadError) as caught:
        check_plain({"model": "m", "messages": USER} | fields, 8)
    assert caught.value.param == param


def test_a_prompt_of_token_ids_is_one_prompt() -> None:
    """Its length is not a number of prompts."""
    check_plain({"model": "m", "prompt": list(range(1000))}, 8)
