"""A request's body as it comes in, and its head."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from refusals import refused_for
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from server.errors import BODY_TOO_SLOW, HEAD_TOO_LARGE
from server.middleware import MAX_HEAD_BYTES, AccessLogMiddleware, DecodedHeaders, TimedBody, check_head
from server.observability.metrics import metrics_only


def _scope(**headers: str) -> dict[str, Any]:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "headers": raw, "query_string": b"", "raw_path": b"/v1/models"}


class _Client:
    """Sends pieces, then nothing; None in a piece's place waits for ever."""

    def __init__(self, pieces: Sequence[bytes | None], *, ends: bool = True) -> None:
        self._pieces = list(pieces)
        self._ends = ends

    async def __call__(self) -> Any:
        if not self._pieces or (piece := self._pieces.pop(0)) is None:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces) or not self._ends}


async def test_a_body_that_stops_coming_is_refused() -> None:
    """With the error that says so, not by waiting."""
    body = TimedBody(DecodedHeaders(_scope(content_length="10")), _Client([b"12345", None]), 0.05)

    assert (await body())["body"] == b"12345"
    with refused_for(BODY_TOO_SLOW):
        await body()
    assert not await body.drain()


async def test_a_whole_body_is_waited_behind_without_end() -> None:
    """``receive`` then tells when the client leaves, which has no time limit."""
    body = TimedBody(DecodedHeaders(_scope(content_length="2")), _Client([b"{}"]), 0.05)
    await body()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(body(), 0.2)
    assert await body.drain()


async def test_what_is_left_of_a_body_is_taken_before_the_reply() -> None:
    """So that the connection stays good, and the client reads why it was refused."""
    assert await TimedBody(DecodedHeaders(_scope(content_length="9")), _Client([b"123", b"456", b"789"]), 5).drain()
    assert await TimedBody(DecodedHeaders(_scope()), _Client([]), 5).drain()


async def test_not_more_than_some_of_it_is_taken() -> None:
    """A body without end does not hold the reply back."""
    client = _Client([bytes(2**20)] * 100, ends=False)

    assert not await TimedBody(DecodedHeaders(_scope(transfer_encoding="chunked")), client, 5).drain()
    assert not await TimedBody(
        DecodedHeaders(_scope(content_length="9", expect="100-continue")), _Client([None]), 600
    ).drain()


def test_headers_that_are_read_once_are_what_starlette_reads() -> None:
    """Names in any case, the first of two values, none."""
    scope: Scope = {
        "type": "http",
        "headers": [(b"origin", b"a"), (b"origin", b"b"), (b"x-name", "ä".encode("latin-1"))],
    }
    read, known = DecodedHeaders(scope), Headers(scope=scope)

    for name in ("origin", "Origin", "x-name", "host"):
        assert read.get(name) == known.get(name)
        assert read.getlist(name) == known.getlist(name)
        assert (name in read) == (name in known)
    assert read["X-Name"] == "ä"
    assert read.items() == known.items()
    with pytest.raises(KeyError):
        read["host"]


def test_a_long_head_is_refused() -> None:
    """By number and by bytes; the address counts."""
    check_head(_scope(a="x" * 60_000))
    with refused_for(HEAD_TOO_LARGE):
        check_head(_scope(a="x" * MAX_HEAD_BYTES))
    with refused_for(HEAD_TOO_LARGE):
        check_head(_scope(**{f"h{i}": "" for i in range(300)}))
    with refused_for(HEAD_TOO_LARGE):
        check_head(_scope() | {"query_string": b"x" * MAX_HEAD_BYTES})


@pytest.mark.parametrize(
    ("route", "status", "is_shown"),
    [("/ready", 503, False), ("/ready", 200, False), ("/health", 500, True), ("/v1/models", 503, True)],
)
async def test_polls_of_a_server_that_loads_leave_no_line(
    route: str, status: int, is_shown: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """An orchestrator asks every second whether it is ready: "not yet" is the answer, and no failure."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = SimpleNamespace(path=route)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        del message

    with caplog.at_level(logging.INFO, "server.middleware"):
        scope = {"type": "http", "method": "GET", "path": route, "headers": []}
        await AccessLogMiddleware(app, metrics_only())(scope, receive, send)
    assert bool(caplog.records) == is_shown
