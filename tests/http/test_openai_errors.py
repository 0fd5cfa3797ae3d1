"""Every refusal names its field, in OpenAI's shape, as the SDK reads it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import openai
import pytest

QUESTION = "What is the official gene symbol of LMP10?"
ASK: dict[str, Any] = {"model": "scripted:genegpt", "messages": [{"role": "user", "content": QUESTION}]}


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"colour": 1}, "colour", "invalid_value"),
        ({"temperature": 3}, "temperature", "invalid_value"),
        ({"temperature": "hot"}, "temperature", "invalid_value"),
        ({"stream": 1}, "stream", "invalid_value"),
        ({"n": 0}, "n", "invalid_value"),
        ({"n": 9}, "n", "invalid_value"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop", "invalid_value"),
        ({"stop": ["a", 3]}, "stop[1]", "invalid_value"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages[0].content[0].text",
            "invalid_value",
        ),
        ({"max_tokens": 5, "max_completion_tokens": 5}, "max_tokens", "invalid_value"),
        ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages", "invalid_value"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role", "invalid_value"),
        ({"tools": [{"type": "function"}]}, "tools[0].function", "invalid_value"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools", "unsupported_parameter"),
        ({"response_format": {"type": "json_object"}}, "response_format", "unsupported_parameter"),
        ({"presence_penalty": 2.5}, "presence_penalty", "invalid_value"),
        ({"repetition_penalty": 0}, "repetition_penalty", "invalid_value"),
        ({"min_p": 1.5}, "min_p", "invalid_value"),
        ({"top_k": -2}, "top_k", "invalid_value"),
        ({"logit_bias": {"1": 101}}, "logit_bias[1]", "invalid_value"),
        ({"logit_bias": {str(i): 1 for i in range(1025)}}, "logit_bias", "invalid_value"),
        ({"logit_bias": {"1000000": 1}}, "logit_bias", "unsupported_parameter"),
        ({"logprobs": True}, "logprobs", "invalid_option"),
        ({"arrowhead": {"colour": 1}}, "arrowhead.colour", "invalid_option"),
        ({"arrowhead": {"mask": "12"}}, "arrowhead.mask", "invalid_option"),
        ({"arrowhead": {"max_calls": 99}}, "arrowhead.max_calls", "invalid_option"),
        ({"arrowhead": {"grammar": "on"}}, "arrowhead.grammar", "invalid_option"),
        ({"arrowhead": {"references": "no"}}, "arrowhead.references", "invalid_option"),
        ({"model": "scripted", "arrowhead": {"mask": "full"}}, "arrowhead.mask", "invalid_option"),
    ],
)
def test_a_bad_field_is_named(client: openai.OpenAI, body: dict[str, Any], param: str, code: str) -> None:
    """422, the field as param, and the field in the message."""
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        client.chat.completions.create(**ASK, extra_body=body)

    assert (refused.value.param, refused.value.code) == (param, code)
    assert refused.value.type == "invalid_request_error"
    assert param.rsplit(".", 1)[-1] in refused.value.message


@pytest.mark.parametrize(
    "body",
    [
        {"user": "u", "metadata": {"a": "b"}, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": None},
        {"tools": [], "tool_choice": "auto", "response_format": {"type": "text"}, "store": False},
    ],
)
def test_fields_that_ask_for_nothing_are_taken(client: openai.OpenAI, body: dict[str, Any]) -> None:
    """What clients send by habit does no harm."""
    done = client.chat.completions.create(**ASK, extra_body=body)

    assert (done.choices[0].message.content or "").startswith("PSMB10")


def test_an_unknown_model_is_404(client: openai.OpenAI) -> None:
    """And the message lists what there is."""
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(**(ASK | {"model": "scripted:nothing"}))

    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
    assert "scripted:genegpt" in refused.value.message


def test_an_error_after_the_first_byte_is_a_chunk(client: openai.OpenAI) -> None:
    """The stream of an answer whose engine fails in mid-sentence ends with an error the SDK raises."""
    texts = []
    with pytest.raises(openai.APIError, match="no rule of the script"):
        for chunk in client.chat.completions.create(
            model="scripted:genegpt", messages=[{"role": "user", "content": "slowly broken"}], stream=True
        ):
            texts += [getattr(c.delta, "reasoning_content", None) or "" for c in chunk.choices]

    assert "I search." in "".join(texts)


def test_a_prompt_without_room_is_a_bad_request(client: openai.OpenAI) -> None:
    """400 with OpenAI's code, the field, both lengths and what to do."""
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="scripted", prompt="gene " * 12_000)

    assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "prompt")
    assert "leaves no room in a context of" in refused.value.message
    assert "shorten the input" in refused.value.message


def test_unknown_routes_have_the_shape_too(running: Any) -> None:
    """404 and 405."""
    for path, status in (("/v1/nothing", 404), ("/v1/chat/completions", 405)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(running.url + path, timeout=120)
        assert refused.value.code == status
        assert json.load(refused.value)["error"]["code"] == "unknown_url"
