"""Replies that go on without their client, and are read again by the same key alone."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send
from waiting import until

from server.api.answers.kept import MAX_OF_KEY, KeepAnswers, KeptReplies
from server.errors import RequestError

BODY = {"type": "http.request", "body": b"{}", "more_body": False}
GONE = {"type": "http.disconnect"}


class Route:
    """Streams each piece that is put; None ends the reply, an error is raised."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.has_left = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        leaving = asyncio.create_task(self._leave(receive))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not self.has_left.is_set():
            taken = asyncio.create_task(self.pieces.get())
            await asyncio.wait({taken, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                taken.cancel()
                return
            piece = taken.result()
            if isinstance(piece, Exception):
                raise piece
            await send({"type": "http.response.body", "body": piece or b"", "more_body": piece is not None})
            if piece is None:
                leaving.cancel()
                return

    async def _leave(self, receive: Receive) -> None:
        assert await receive() == GONE
        self.has_left.set()


class Client:
    """One connection: what it has received, and whether it is there."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.gone = asyncio.Event()
        self._body = [BODY]

    @property
    def text(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)

    @property
    def is_whole(self) -> bool:
        return bool(self.messages) and self.messages[-1].get("more_body") is False

    async def receive(self) -> Message:
        if self._body:
            return self._body.pop()
        await self.gone.wait()
        return GONE

    async def send(self, message: Message) -> None:
        # As the layer around does: what is kept is not to have it.
        if message["type"] == "http.response.start":
            message["headers"].append((b"x-request-id", b"1"))
        self.messages.append(message)


class Site:
    """The layer over one route."""

    def __init__(self, **limits: Any) -> None:
        self.route = Route()
        self.replies = KeptReplies(**limits)
        self.layer = KeepAnswers(self.route, self.replies)

    def ask(self, name: str | None, owner: str = "a") -> tuple[Client, asyncio.Task[None]]:
        client = Client()
        headers = [] if name is None else [(b"x-keep-answer", name.encode())]
        scope: Scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": headers}
        scope["state"] = {"owner": owner}
        return client, asyncio.create_task(self.layer(scope, client.receive, client.send))

    def read(self, name: str, owner: str = "a") -> tuple[Client, asyncio.Task[None]]:
        client = Client()
        kept = self.replies.find(owner, name)
        return client, asyncio.create_task(kept.follow(client.receive, client.send))


def name() -> str:
    return uuid.uuid4().hex


async def leave(client: Client, task: Awaitable[None]) -> None:
    client.gone.set()
    await task


async def test_an_answer_goes_on_without_its_client_and_is_read_from_the_beginning() -> None:
    """While it comes, and once more after its end."""
    site, one = Site(), name()
    first, asking = site.ask(one)
    site.route.pieces.put_nowait(b"a")
    await until(lambda: first.text == b"a")
    await leave(first, asking)
    site.route.pieces.put_nowait(b"b")
    second, reading = site.read(one)
    await until(lambda: second.text == b"ab")
    for piece in (b"c", None):
        site.route.pieces.put_nowait(piece)
    await reading
    third, again = site.read(one)
    await again

    assert not first.is_whole and second.is_whole and third.is_whole
    assert (second.text, third.text) == (b"abc", b"abc")
    assert second.messages[0] == third.messages[0] and len(third.messages[0]["headers"]) == 1


async def test_without_the_header_a_client_that_leaves_ends_its_answer() -> None:
    site = Site()
    client, asking = site.ask(None)
    await leave(client, asking)

    assert site.route.has_left.is_set()


async def test_no_other_key_reads_or_stops_it() -> None:
    site, one = Site(), name()
    client, asking = site.ask(one)
    with pytest.raises(RequestError, match="no such answer"):
        site.read(one, "b")
    with pytest.raises(RequestError, match="no such answer"):
        site.replies.stop("b", one)
    site.route.pieces.put_nowait(None)
    await asking

    assert client.is_whole


async def test_a_stop_ends_the_answer_as_if_its_client_had_left() -> None:
    site, one = Site(), name()
    client, asking = site.ask(one)
    await until(lambda: bool(client.messages))
    site.replies.stop("a", one)
    await asyncio.wait_for(site.route.has_left.wait(), 60)
    with pytest.raises(RequestError):
        site.read(one)
    await asking


async def test_an_answer_that_nobody_reads_is_stopped_and_forgotten() -> None:
    """Its time begins when the last reader has left."""
    site, one = Site(unread_s=0.05), name()
    client, asking = site.ask(one)
    await until(lambda: bool(client.messages))
    await asyncio.sleep(0.1)
    site.replies.find("a", one)
    await leave(client, asking)
    await asyncio.wait_for(site.route.has_left.wait(), 60)

    with pytest.raises(RequestError):
        site.replies.find("a", one)


async def test_an_error_reaches_who_reads() -> None:
    """The first reader and a later one, as the layers around make the reply of it."""
    site, one = Site(), name()
    _, asking = site.ask(one)
    site.route.pieces.put_nowait(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        await asking
    with pytest.raises(ValueError, match="broken"):
        await site.read(one)[1]


async def test_one_key_keeps_a_bounded_number_and_replies_that_ended_give_way() -> None:
    """One more is answered as any other; another key has places of its own."""
    site = Site()
    running = [(one, *site.ask(one)) for one in (name() for _ in range(MAX_OF_KEY))]
    of_other = site.ask(name(), "b")[0]
    beyond = name()
    client, asking = site.ask(beyond)
    await until(lambda: all(one.messages for one in (client, of_other, *(one for _, one, _ in running))))
    with pytest.raises(RequestError):
        site.replies.find("a", beyond)
    await leave(client, asking)
    for _ in (of_other, *running):
        site.route.pieces.put_nowait(None)
    await asyncio.gather(*(task for _, _, task in running))

    assert site.replies.open("a", name()) is not None
    with pytest.raises(RequestError):
        site.replies.find("a", running[0][0])


async def test_a_reply_beyond_its_bytes_goes_on_and_is_not_read_from_the_middle() -> None:
    site, one = Site(), name()
    client, asking = site.ask(one)
    for _ in range(5):
        site.route.pieces.put_nowait(b"x" * 2**20)
        await until(lambda: site.route.pieces.empty() and len(client.text) % 2**20 == 0)
    site.route.pieces.put_nowait(None)
    await asking

    assert client.is_whole and len(client.text) == 5 * 2**20
    with pytest.raises(RequestError):
        site.read(one)


async def test_a_reply_beyond_its_bytes_can_be_stopped() -> None:
    """Although it can no longer be read."""
    site, one = Site(), name()
    client, asking = site.ask(one)
    for _ in range(5):
        site.route.pieces.put_nowait(b"x" * 2**20)
    await until(lambda: len(client.text) == 5 * 2**20)
    site.replies.stop("a", one)
    await asyncio.wait_for(site.route.has_left.wait(), 60)
    await asking

    with pytest.raises(RequestError):
        site.replies.stop("a", one)


async def test_names_are_random_ids_and_stand_once() -> None:
    site, one = Site(), name()
    site.ask(one)
    await asyncio.sleep(0)
    for wrong in ("", "my answer", "../x", one):
        with pytest.raises(RequestError, match="X-Keep-Answer"):
            site.replies.open("a", wrong)
    await site.replies.close()


async def test_where_no_records_are_kept_no_reply_is_kept() -> None:
    site, one = Site(is_off=True), name()
    client, asking = site.ask(one)
    await leave(client, asking)

    assert site.route.has_left.is_set()


async def test_the_end_of_the_server_ends_them() -> None:
    site = Site()
    client, asking = site.ask(name())
    await until(lambda: bool(client.messages))
    await site.replies.close()
    await asking

    assert not client.is_whole
