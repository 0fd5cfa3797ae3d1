"""Clients that take nothing of what they asked for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

from server.serving.connections import HEAD_BUFFER, STREAM_BUFFER, configure_listener, with_slow_client_limits


class _Sender(asyncio.Protocol):
    """As uvicorn's: writes when it is told to, and notes what its transport says."""

    def __init__(self) -> None:
        self.paused = False
        self.cycle: Any = None
        self.lost = asyncio.Event()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()

    def data_received(self, data: bytes) -> None:
        """A line is a whole head; a body ends with "."."""
        if b"\n" in data:
            self.cycle = SimpleNamespace(response_complete=False, more_body=True)
        elif self.cycle is not None and data.endswith(b"."):
            self.cycle.more_body = False

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False


@asynccontextmanager
async def _connected(slow_reader_s: float, slow_head_s: float = 600) -> AsyncIterator[tuple[_Sender, socket.socket]]:
    """A server's end with the time limit, and a client that reads when it is made to."""
    listener = socket.create_server(("127.0.0.1", 0))
    configure_listener(listener, 60)
    senders: asyncio.Queue[_Sender] = asyncio.Queue()
    kind = with_slow_client_limits(_Sender, slow_reader_s, slow_head_s)

    class Known(kind):  # type: ignore[misc,valid-type]
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            senders.put_nowait(self)

    server = await asyncio.get_running_loop().create_server(Known, sock=listener)
    client = socket.socket()
    client.setblocking(False)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await asyncio.get_running_loop().sock_connect(client, listener.getsockname())
    try:
        yield await senders.get(), client
    finally:
        client.close()
        server.close()
        await server.wait_closed()


async def _fill(sender: _Sender) -> None:
    """Write until the transport asks to stop."""
    assert sender.transport is not None
    while not sender.paused:
        sender.transport.write(bytes(4096))
        await asyncio.sleep(0)


async def test_a_client_that_takes_nothing_is_cut_off() -> None:
    """What it made us hold by then is bounded."""
    async with _connected(0.1) as (sender, _):
        await _fill(sender)
        assert sender.transport is not None
        held = sender.transport.get_write_buffer_size()
        async with asyncio.timeout(120):
            await sender.lost.wait()

    assert held <= STREAM_BUFFER + 4096


async def test_a_client_that_reads_again_is_kept() -> None:
    """The time begins anew with each stop."""
    async with _connected(600) as (sender, client):
        await _fill(sender)
        while sender.paused:
            await asyncio.get_running_loop().sock_recv(client, 65536)
        await _fill(sender)

        assert not sender.lost.is_set()


async def test_a_client_that_asks_nothing_is_cut_off() -> None:
    """The time begins with the connection; bytes that make no whole head do not stop it."""
    async with _connected(600, 0.1) as (sender, client):
        await asyncio.get_running_loop().sock_sendall(client, b"GET / HTTP/1.1")
        async with asyncio.timeout(120):
            await sender.lost.wait()


async def test_a_head_without_end_is_cut_off() -> None:
    """Long before the time is over."""
    async with _connected(600) as (sender, client):
        loop = asyncio.get_running_loop()
        with suppress(ConnectionError):
            for _ in range(HEAD_BUFFER // 1024 * 4):
                await loop.sock_sendall(client, b"x" * 1024)
        async with asyncio.timeout(120):
            await sender.lost.wait()


async def test_what_follows_a_whole_head_is_not_counted() -> None:
    """The body is another's to bound, and its time too."""
    async with _connected(600, 1.5) as (sender, client):  # the time a busy machine has to read the first bytes
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, b"GET /\n")
        await asyncio.sleep(0.1)
        await loop.sock_sendall(client, b"x" * (2 * HEAD_BUFFER) + b".")
        await asyncio.sleep(2.0)

        assert not sender.lost.is_set()
