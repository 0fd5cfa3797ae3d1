"""Comments in a stream that is silent and nowhere else, and the end of a stream whose client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import Request
from starlette.types import Message

from server.api.http_io import KEEPALIVE, KeepAlive, stream_reply

STREAM = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream; a=b")]}
PLAIN = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}
COMMENT = {"type": "http.response.body", "body": KEEPALIVE, "more_body": True}
PIECE = {"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True}
END = {"type": "http.response.body", "body": b"", "more_body": False}


class _Client:
    def __init__(self) -> None:
        self.got: list[Any] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.told = asyncio.Event()

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        self.got.append(message)
        self.told.set()

    async def until(self, number: int) -> None:
        async with asyncio.timeout(120):
            while len(self.got) < number:
                self.told.clear()
                await self.told.wait()


async def test_a_silent_stream_carries_comments_between_its_pieces() -> None:
    """More than one, and the pieces come through as they are."""
    client = _Client()
    kept = KeepAlive(client.send, 0.01)
    async with kept:
        await kept(STREAM)
        await client.until(3)
        before = len(client.got)
        await kept(PIECE)
        await client.until(before + 2)
    assert client.got[:3] == [STREAM, COMMENT, COMMENT]
    assert client.got.count(PIECE) == 1 and client.got[-1] == COMMENT


@pytest.mark.parametrize("messages", [(), (PLAIN,), (STREAM, END), (STREAM, PIECE, END)])
async def test_nothing_is_added_before_after_or_to_another_reply(messages: tuple[Any, ...]) -> None:
    """Many beats long."""
    client = _Client()
    kept = KeepAlive(client.send, 0.002)
    async with kept:
        for message in messages:
            await kept(message)
        await asyncio.sleep(0.1)
    assert [one for one in client.got if one != COMMENT] == list(messages)
    assert COMMENT not in client.got[-1:] and (not messages or client.got[-1] == messages[-1])


async def test_a_piece_that_is_still_being_taken_has_none_beside_it() -> None:
    """A reader that takes nothing gets no heap of comments either."""
    client = _Client()
    kept = KeepAlive(client.send, 0.002)
    async with kept:
        await kept(STREAM)
        client.reads.clear()
        sending = asyncio.create_task(kept(PIECE))
        await asyncio.sleep(0.1)
        client.reads.set()
        await sending
        seen = list(client.got)
    assert seen == [STREAM, PIECE]


async def test_no_comment_follows_the_block() -> None:
    """Its clock ends with it, whatever the reason."""
    client = _Client()
    kept = KeepAlive(client.send, 0.002)
    with pytest.raises(RuntimeError):
        async with kept:
            await kept(STREAM)
            raise RuntimeError
    number = len(client.got)
    await asyncio.sleep(0.05)
    assert len(client.got) == number


async def test_pieces_take_the_shorter_way() -> None:
    """The start goes through all layers, as some look at it; pieces, comments and the end go past them."""
    through, past = _Client(), _Client()
    kept = KeepAlive(through.send, 0.01, past.send)
    async with kept:
        await kept(STREAM)
        await past.until(1)
        await kept(PIECE)
        await kept(END)
    assert through.got == [STREAM]
    assert past.got[0] == COMMENT and [one for one in past.got if one != COMMENT] == [PIECE, END]


async def _late(first: asyncio.Event) -> AsyncGenerator[dict[str, int], None]:
    await first.wait()
    yield {"number": 1}


async def test_a_reply_begins_with_comments_while_its_first_piece_is_awaited() -> None:
    """Its place is given, and what it looks up is slow."""
    client, first = _Client(), asyncio.Event()

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise NotImplementedError

    scope = {"type": "http", "state": {}}
    answers: Any = SimpleNamespace(is_admitted=True)
    reply = await stream_reply(Request(scope, receive), answers, _late(first), keepalive_s=0.01)
    sent = asyncio.create_task(reply(scope, receive, client.send))
    await client.until(4)
    first.set()
    await sent

    assert client.got[0]["headers"] and client.got[1:4] == [COMMENT] * 3
    pieces = [one["body"] for one in client.got[4:] if one != COMMENT]
    assert pieces == [b'data: {"number":1}\n\n', b"data: [DONE]\n\n", b""]


async def _always_ready(most: int, made: list[int]) -> AsyncGenerator[dict[str, int], None]:
    """Chunks that another task makes, the next one always made when the last one was taken."""
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=64)

    async def make() -> None:
        for number in range(most):
            await asyncio.sleep(0)
            await queue.put(number)

    task = asyncio.create_task(make())
    try:
        for _ in range(most):
            number = await queue.get()
            made.append(number)
            yield {"number": number}
    finally:
        task.cancel()


async def test_a_stream_that_is_always_ready_ends_with_its_client() -> None:
    """Nobody takes its pieces then, and nothing else would hold it back: it would run to its end."""
    most, made, gone = 20_000, list[int](), asyncio.Event()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if len(made) >= 100:
            gone.set()

    scope = {"type": "http", "state": {}}
    answers: Any = SimpleNamespace(is_admitted=True)
    reply = await stream_reply(Request(scope, receive), answers, _always_ready(most, made))
    await reply(scope, receive, send)

    assert 100 <= len(made) < 1_000
    assert len(asyncio.all_tasks()) == 1
