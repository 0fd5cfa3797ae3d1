"""Bodies as clients send them: fields that ask for nothing, demands that cannot be kept, parts that are no text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.completion_create_params import CompletionCreateParamsBase as TextParams
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from models.errors import ArrowheadError
from server.api.openai.chat import parse_chat
from server.api.openai.completions import parse_completion
from server.api.responses.schemas import parse_responses
from server.error_mapping import error_reply
from server.errors import UNSUPPORTED_FIELD, RequestError

HELLO = {"model": "m", "messages": [{"role": "user", "content": "Say hello."}]}
BREAKPOINT = {"type": "text", "text": "Say hello.", "prompt_cache_breakpoint": {"mode": "explicit"}}


def schema_body(schema: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return HELLO | {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema} | fields}}


@pytest.mark.parametrize(
    "fields",
    [
        {"moderation": None},
        {"prompt_cache_retention": None},
        {"prompt_cache_retention": "in_memory"},
        {"prompt_cache_options": {"mode": "implicit"}},
        {"verbosity": "medium"},
        {"reasoning_effort": "none"},
        {"reasoning_effort": "high"},
        {"messages": [{"role": "user", "content": [BREAKPOINT]}]},
        {"messages": [{"role": "user", "content": [BREAKPOINT | {"prompt_cache_breakpoint": None}]}]},
    ],
)
def test_fields_of_a_chat_that_ask_for_nothing_are_taken(fields: dict[str, Any]) -> None:
    """As OpenAI's SDK and Open WebUI send them."""
    assert parse_chat(HELLO | fields).messages[-1].text == "Say hello."


@pytest.mark.parametrize("name", sorted(CompletionCreateParamsBase.__annotations__.keys() - HELLO.keys()))
def test_every_field_of_a_chat_may_be_null(name: str) -> None:
    """Of the SDK that this project installs; a client that sets what it does not use to null asks for nothing."""
    parse_chat(HELLO | {name: None})


@pytest.mark.parametrize("name", sorted(TextParams.__annotations__.keys() - {"model", "prompt"}))
def test_every_field_of_a_completion_may_be_null(name: str) -> None:
    """As of a chat."""
    parse_completion({"model": "m", "prompt": "Once", name: None})


@pytest.mark.parametrize("name", sorted(ResponseCreateParamsBase.__annotations__.keys() - {"model", "input"}))
def test_every_field_of_a_response_may_be_null(name: str) -> None:
    """As of a chat."""
    parse_responses({"model": "m", "input": "Say hello.", name: None})


@pytest.mark.parametrize(
    ("keyword", "schema"),
    [
        ("uniqueItems", {"type": "array", "items": {"enum": ["a"]}, "uniqueItems": True, "minItems": 2, "maxItems": 2}),
        ("contains", {"type": "array", "items": {"enum": ["a", "b"]}, "contains": {"const": "b"}, "minItems": 1}),
        ("not", {"type": "object", "properties": {"x": {"type": "integer", "not": {"const": 1}}}, "required": ["x"]}),
    ],
)
def test_a_schema_that_cannot_be_kept_is_refused_by_its_keyword(keyword: str, schema: dict[str, Any]) -> None:
    """Not answered with JSON that violates it; strict: false asks for no guarantee."""
    for body in (schema_body(schema), schema_body(schema, strict=True)):
        with pytest.raises(
            RequestError, match=rf"the JSON schema has {keyword} .*strict: false", check=UNSUPPORTED_FIELD.is_of
        ) as caught:
            assert parse_chat(body).grammar
        assert caught.value.param == "response_format"
    assert parse_chat(schema_body(schema, strict=False)).grammar is not None
    with pytest.raises(RequestError, match=keyword, check=UNSUPPORTED_FIELD.is_of):
        assert parse_chat(HELLO | {"structured_outputs": {"json": schema}}).grammar


def test_the_parameters_of_a_tool_bind_where_it_is_strict() -> None:
    """Other tools describe what they would like, in whatever words their authors know."""
    parameters = {"type": "object", "properties": {"ids": {"type": "array", "items": {}, "uniqueItems": True}}}

    def body(**fields: Any) -> dict[str, Any]:
        return HELLO | {"tools": [{"type": "function", "function": {"name": "f", "parameters": parameters} | fields}]}

    assert parse_chat(body()).tool_use is not None
    with pytest.raises(RequestError, match="uniqueItems", check=UNSUPPORTED_FIELD.is_of):
        assert parse_chat(body(strict=True)).tool_use


def test_a_pattern_that_looks_ahead_is_refused() -> None:
    """The grammar would ignore it."""
    with pytest.raises(RequestError, match="not enforced in a pattern"):
        assert parse_chat(HELLO | {"structured_outputs": {"regex": "(?=a)[ab]"}}).grammar


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]},
            "messages[0].content[0]: images are not served: send text",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]},
            "messages[0].content[0]: files are not served: send text, or put the file into a namespace "
            "(docs/retrieval-http.md)",
        ),
        ({"verbosity": "low"}, "verbosity: is not served; leave verbosity out"),
        (
            schema_body({"type": "object"}, name="my schema"),
            "response_format.json_schema.name: a name has 1 to 64 letters (a-z, A-Z), digits, _ and -",
        ),
    ],
)
def test_a_refusal_says_once_what_to_do(fields: dict[str, Any], message: str) -> None:
    """Where the fault is, and the remedy."""
    with pytest.raises(ArrowheadError) as caught:
        parse_chat(HELLO | fields)
    assert error_reply(caught.value).message == message


def test_store_is_refused_in_one_sentence() -> None:
    """Not "leave store out" and "leave the field out"."""
    with pytest.raises(RequestError, check=UNSUPPORTED_FIELD.is_of) as caught:
        parse_responses({"model": "m", "input": "hello", "store": True})
    assert len(re.findall("leave", error_reply(caught.value).message)) == 1


def test_a_refusal_in_the_history_is_read_as_text() -> None:
    """Of a chat and of a response, as the SDK sends an earlier answer back."""
    refusal = [{"type": "refusal", "refusal": "I cannot."}]
    chat = parse_chat(HELLO | {"messages": [{"role": "assistant", "content": refusal}, *HELLO["messages"]]})
    assert chat.messages[0].text == "I cannot."
    items = [{"role": "user", "content": "hi"}, {"type": "message", "role": "assistant", "content": refusal}]
    request = parse_responses({"model": "m", "input": [*items, {"role": "user", "content": "b"}]})
    assert [message.content for message in request.messages] == ["hi", "I cannot.", "b"]
