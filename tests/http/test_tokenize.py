"""``/tokenize`` and ``/detokenize`` with vLLM's fields, against a real server process."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest


def _post(url: str, path: str, body: Any, key: str = "none") -> tuple[int, Any]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    request = urllib.request.Request(f"{url}/{path}", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_prompts_tokens_are_counted(running: Any) -> None:
    """The scripted vocabulary is bytes, after the token that begins a sequence."""
    status, reply = _post(running.url, "tokenize", {"model": "scripted", "prompt": "gené"})

    assert (status, reply["count"]) == (200, 6)
    assert reply["tokens"][1:] == list("gené".encode())
    assert reply["max_model_len"] > 0
    assert reply["token_strs"] is None


def test_special_tokens_can_be_left_out(running: Any) -> None:
    """And the tokens' texts asked for."""
    body = {"prompt": "ab", "add_special_tokens": False, "return_token_strs": True}

    assert _post(running.url, "tokenize", body)[1]["token_strs"] == ["a", "b"]


def test_there_and_back(running: Any) -> None:
    """What was tokenized is detokenized; special tokens leave nothing."""
    tokens = _post(running.url, "tokenize", {"prompt": "α-synuclein"})[1]["tokens"]

    assert _post(running.url, "detokenize", {"tokens": tokens}) == (200, {"prompt": "α-synuclein"})


def test_a_chat_has_the_tokens_that_the_model_gets(running: Any) -> None:
    """As many as the usage of the same chat says; a method has its base's tokens."""
    messages = [{"role": "user", "content": "hello"}]
    _, counted = _post(running.url, "tokenize", {"model": "scripted:genegpt", "messages": messages})
    _, answered = _post(running.url, "v1/chat/completions", {"model": "scripted", "messages": messages})

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
    got, reply = _post(running.url, path, body)

    assert (got, reply["error"]["param"]) == (status, param)
