"""Answers that were asked for with X-Keep-Answer, over real connections: clients that leave and come back."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from waiting import wait_until

KEYS = ("the-first-key-of-these-tests", "the-second-key-of-these-tests")


@pytest.fixture
def server(host_with: Callable[..., AbstractContextManager[Any]]) -> Any:
    with host_with({"ARROWHEAD_SERVER__API_KEYS": ",".join(KEYS)}) as running:
        yield running


def _asked(url: str, question: str, answer_id: str, *, stream: bool = True) -> socket.socket:
    """Ask, and leave the reply unread."""
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    messages = [{"role": "user", "content": question}]
    body = json.dumps({"model": "scripted:genegpt", "stream": stream, "messages": messages}).encode()
    fields = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": str(len(body))}
    fields |= {"Authorization": f"Bearer {KEYS[0]}", "X-Keep-Answer": answer_id}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    connection = socket.create_connection((parts.hostname, parts.port), timeout=120)
    connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n".encode() + body)
    return connection


def _send(url: str, method: str, path: str, key: str = KEYS[0]) -> httpx.Response:
    return httpx.request(method, url + path, headers={"Authorization": f"Bearer {key}"}, timeout=120)


def _in_flight(url: str) -> int:
    return int(_send(url, "GET", "/ready").json()["in_flight"])


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_comes_back_reads_the_whole_reply(server: Any, stream: bool) -> None:
    """Of an answer that came on while nobody read it; its record has it too."""
    answer_id = uuid.uuid4().hex
    connection = _asked(server.url, "slow", answer_id, stream=stream)
    wait_until(lambda: _in_flight(server.url) == 1)
    connection.close()
    reply = _send(server.url, "GET", f"/v1/answers/{answer_id}")
    again = _send(server.url, "GET", f"/v1/answers/{answer_id}")
    lines = [line.removeprefix("data: ") for line in reply.text.splitlines() if line.startswith(("data: ", "{"))]
    head = json.loads(lines[0])

    assert reply.status_code == 200 and reply.text == again.text and "not found" in reply.text
    assert reply.text.endswith("data: [DONE]\n\n") == stream
    assert len(reply.headers.get_list("x-request-id")) == 1
    assert _send(server.url, "GET", f"/v1/traces/{head['id']}").json()["choices"][0]["finish_reason"] == "stop"


def test_a_stop_ends_what_no_client_waits_for(server: Any) -> None:
    """For the key that asked alone; another is told as of an id that never was."""
    answer_id = str(uuid.uuid4())
    _asked(server.url, "dead", answer_id).close()
    path = f"/v1/answers/{answer_id}"
    wait_until(lambda: _in_flight(server.url) == 1)
    refused = [_send(server.url, method, path, KEYS[1]) for method in ("GET", "DELETE")]
    unknown = _send(server.url, "GET", f"/v1/answers/{uuid.uuid4()}", KEYS[1])
    assert {one.status_code for one in refused} == {404} and refused[0].json() == unknown.json()
    assert _in_flight(server.url) == 1
    assert _send(server.url, "DELETE", path).json()["deleted"]
    wait_until(lambda: _in_flight(server.url) == 0)

    assert _send(server.url, "GET", path).status_code == 404


def test_an_id_that_can_be_guessed_is_refused(server: Any) -> None:
    """With the field and what it is to be."""
    connection = _asked(server.url, "slow", "1")
    received = b""
    while b"\r\n\r\n" not in received or b"}" not in received:
        received += connection.recv(65536)
    connection.close()

    assert received.startswith(b"HTTP/1.1 422") and b"X-Keep-Answer: a random id" in received
