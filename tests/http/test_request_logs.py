"""The log of a real server: one line a request and one an answer, with the ids that tie them together."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

QUESTION = "What is the official gene symbol of LMP10?"
GIVEN = "7f3e0b1a-2c4d-4e5f-8a9b-0c1d2e3f4a5b"


@pytest.fixture(scope="module")
def logging_server(serve_with: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    with serve_with({"ARROWHEAD_LOG__FORMAT": "json"}) as server:
        yield server


def _ask(url: str, **headers: str) -> str:
    """The answered request's id."""
    body = {"model": "scripted:genegpt", "messages": [{"role": "user", "content": QUESTION}]}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions?from=nowhere",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **headers},
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        reply.read()
        return str(reply.headers["x-request-id"])


def _lines(server: Any, event: str, **fields: Any) -> list[dict[str, Any]]:
    """Waits for one: a request is logged after its last byte."""
    for _ in range(2400):
        parsed = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
        found = [line for line in parsed if line.get("event") == event and fields.items() <= line.items()]
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"no line {event} {fields} in:\n{server.log()}")


def test_a_request_and_its_answer_have_a_line_each(logging_server: Any) -> None:
    """Every field is a member of its own; the path's query is nowhere."""
    rid = _ask(logging_server.url)
    (request,) = _lines(logging_server, "request", request_id=rid)
    (answer,) = _lines(logging_server, "answer", request=rid)

    assert (request["method"], request["route"], request["status"]) == ("POST", "/v1/chat/completions", 200)
    assert request["seconds"] >= answer["seconds"] >= answer["first"] > 0
    assert (answer["model"], answer["calls"], answer["outcome"]) == ("scripted:genegpt", 2, "ok")
    assert answer["request_id"] == answer["id"]
    assert answer["sampled"] > 0 and answer["injected"] > 0 and answer["id"].startswith("chatcmpl-")
    assert "nowhere" not in logging_server.log()


def test_a_clients_request_id_is_taken_where_it_can_only_be_one(logging_server: Any) -> None:
    """A UUID or a trace id is; what could hold words is replaced."""
    assert _ask(logging_server.url, **{"x-request-id": GIVEN}) == GIVEN
    assert _lines(logging_server, "answer", request=GIVEN)
    for unsafe in ("zebrawort-quillfeather", "short1", "a" * 200, "0123456789abcdef\tx"):
        assert len(_ask(logging_server.url, **{"x-request-id": unsafe})) == 32
    assert "zebrawort" not in logging_server.log()


def test_probes_leave_no_line(logging_server: Any) -> None:
    """They come every few seconds."""
    for path in ("/health", "/ready", "/metrics"):
        urllib.request.urlopen(logging_server.url + path, timeout=120).read()
    _ask(logging_server.url)

    lines = [json.loads(line) for line in logging_server.log().splitlines() if line.startswith("{")]
    assert not [line for line in lines if line.get("route") in {"/health", "/ready", "/metrics"}]
