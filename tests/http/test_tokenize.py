"""``/tokenize`` and ``/detokenize`` with vLLM's fields, against a real server process."""

from __future__ import annotations

from typing import Any

import pytest
from http_calls import Site


def test_a_prompts_tokens_are_counted(running: Any) -> None:
    """The scripted vocabulary is bytes, after the token that begins a sequence."""
    status, reply = Site(running.url).call("POST", "/tokenize", {"model": "scripted", "prompt": "gené"})

    assert (status, reply["count"]) == (200, 6)
    assert reply["tokens"][1:] == list("gené".encode())
    assert reply["max_model_len"] > 0
    assert reply["token_strs"] is None


def test_special_tokens_can_be_left_out(running: Any) -> None:
    """And the tokens' texts asked for."""
    body = {"prompt": "ab", "add_special_tokens": False, "return_token_strs": True}

    assert Site(running.url).call("POST", "/tokenize", body)[1]["token_strs"] == ["a", "b"]


def test_there_and_back(running: Any) -> None:
    """What was tokenized is detokenized; special tokens leave nothing."""
    tokens = Site(running.url).call("POST", "/tokenize", {"prompt": "α-synuclein"})[1]["tokens"]

    assert Site(running.url).call("POST", "/detokenize", {"tokens": tokens}) == (200, {"prompt": "α-synuclein"})


def test_a_chat_has_the_tokens_that_the_model_gets(running: Any) -> None:
    """As many as the usage of the same chat says; a method has its base's tokens."""
    messages = [{"role": "user", "content": "hello"}]
    _, counted = Site(running.url).call("POST", "/tokenize", {"model": "scripted:genegpt", "messages": messages})
    _, answered = Site(running.url).call("POST", "/v1/chat/completions", {"model": "scripted", "messages": messages})

    assert counted["count"] == answered["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("tokenize", {}, 422, "prompt"),
        ("tokenize", {"prompt": "a", "messages": [{"role": "user", "content": "a"}]}, 422, "prompt"),
        ("tokenize", {"prompt": "a", "model": "other"}, 404, "model"),
        ("tokenize", {"prompt": "a", "chat_template": "x"}, 422, "chat_template"),
        ("tokenize", {"prompt": "a", "colour": 1}, 422, "colour"),
        ("detokenize", {"tokens": ["a"]}, 422, "tokens[0]"),
        ("detokenize", {"tokens": [10**9]}, 422, "tokens"),
    ],
)
def test_what_is_wrong_is_named(running: Any, path: str, body: Any, status: int, param: str) -> None:
    """In OpenAI's shape, as everywhere."""
    got, reply = Site(running.url).call("POST", f"/{path}", body)

    assert (got, reply["error"]["param"]) == (status, param)
