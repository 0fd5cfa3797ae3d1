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


def _post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    request = urllib.request.Request(f"{url}/v1/chat/completions", data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {"Content-Type": "application/json"}, 422),
        (b"[1]", {"Content-Type": "application/json"}, 422),
        (b'{"n": NaN}', {"Content-Type": "application/json"}, 422),
        (b"[" * 20000, {"Content-Type": "application/json"}, 422),
        (b" " * 70_000, {"Content-Type": "application/json"}, 413),
        (b"{}", {"Content-Type": "text/plain"}, 403),
        (b"{}", {"Content-Type": "application/json", "Host": "evil.example"}, 400),
    ],
)
def test_hostile_bodies_are_refused(running: Any, body: bytes, headers: dict[str, str], status: int) -> None:
    """Broken, nested, too long, from a web form, from another site's name: refused in OpenAI's shape."""
    got, answer = _post(running.url, body, headers)

    assert got == status
    assert set(answer["error"]) == {"message", "type", "param", "code"}


def test_unknown_routes_have_the_shape_too(running: Any) -> None:
    """404 and 405."""
    for path, status in (("/v1/nothing", 404), ("/v1/chat/completions", 405)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(running.url + path, timeout=120)
        assert refused.value.code == status
        assert json.load(refused.value)["error"]["code"] == "unknown_url"


def test_keys_guard_every_route_but_health(host_with: Any, caplog: pytest.LogCaptureFixture) -> None:
    """No key, a wrong one, a right one; another key's trace does not exist. The page of the docs is open and empty."""
    caplog.set_level("DEBUG")
    with host_with({"ARROWHEAD_SERVER__API_KEYS": "first-key-0,second-key-0"}) as server:
        for key in ("none", "first-key-"):
            with server.client(key) as stranger, pytest.raises(openai.AuthenticationError) as refused:
                stranger.chat.completions.create(**ASK)
            assert refused.value.code == "invalid_api_key"
        closed = (
            "/v1/models",
            "/v1/traces/x",
            "/version",
            "/ready",
            "/metrics",
            "/openapi.json",
            "/docs/x",
            "//v1/models",
        )
        for path in closed:
            with pytest.raises(urllib.error.HTTPError) as refusal:
                urllib.request.urlopen(server.url + path, timeout=120)
            assert refusal.value.code == 401
        for path in ("/health", "/docs"):
            with urllib.request.urlopen(server.url + path, timeout=120) as open_route:
                assert open_route.status == 200
        with server.client("first-key-0") as first, server.client("second-key-0") as second:
            done = first.chat.completions.create(**ASK)
            assert first.get(f"/traces/{done.id}", cast_to=object)
            with pytest.raises(openai.NotFoundError):
                second.get(f"/traces/{done.id}", cast_to=object)
        said = "".join(record.getMessage() for record in caplog.records if record.name.startswith("server"))
        assert said and "LMP10" not in said and "first-key" not in said
