"""One replica is asked and no other address, within limits, and prompts do not pass a public network in clear text."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from models.engines.base import RemoteOptions, is_private
from models.engines.remote_engine.connection import Connection, events_of
from models.engines.remote_engine.wire import AddressNotPrivate, ReplicaLost

OPTIONS = RemoteOptions(url="http://replica-1:8000", connect_s=1.0)
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(answer: Answer) -> AsyncIterator[Connection]:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await answer(reader, writer)
        writer.transport.abort()

    async with await asyncio.start_server(served, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        connection = Connection(replace(OPTIONS, url=url))
        yield connection
        await connection.close()


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def events(connection: Connection) -> list[object]:
    async with connection.open("/x", {"a": 1}) as response:
        return [event async for event in events_of(response)]


async def test_events_are_read_however_they_are_cut() -> None:
    """One event may come in many pieces and many in one; comments are passed over."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(b': hello\n\ndata: {"n": 1}\n\ndata: {"n"'))
        await writer.drain()
        writer.write(chunk(b': 2}\n\ndata: {"n": 3}\n\ndata: [DONE]\n\n') + b"0\r\n\r\n")
        await writer.drain()

    async with listening(answer) as connection:
        assert await events(connection) == [{"n": 1}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        HEAD,
        HEAD + chunk(b'data: {"n": 1}\n\n'),
        HEAD + chunk(b'data: {"n": 1}\n\n') + b"0\r\n\r\n",
        HEAD + chunk(b"data: {broken\n\n"),
        b"no HTTP at all\r\n\r\n",
    ],
)
async def test_a_stream_that_does_not_end_well_is_lost(sent: bytes) -> None:
    """Cut at any place, ended without its last event, or something else."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()

    async with listening(answer) as connection:
        with pytest.raises(ReplicaLost):
            await events(connection)


async def test_a_reply_has_its_time() -> None:
    async def answer(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    async with listening(answer) as connection:
        with pytest.raises(ReplicaLost, match=r"no reply from .* in 0\.2 s"):
            await connection.ask("/health", 0.2)


async def test_a_reply_has_its_size() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 40000000\r\n\r\n" + b"x" * 40_000_000)
        await writer.drain()

    async with listening(answer) as connection:
        with pytest.raises(ReplicaLost, match="too long"):
            await connection.ask("/metrics", 10)


async def test_a_redirect_is_not_followed() -> None:
    """Only the configured address is asked."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with listening(answer) as connection:
        assert (await connection.ask("/v1/models", 5)).status == 302


async def test_nothing_listens() -> None:
    connection = Connection(replace(OPTIONS, url="http://127.0.0.1:1"))
    with pytest.raises(ReplicaLost, match="ConnectError"):
        await connection.ask("/health", 5)
    await connection.close()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True), ("10.1.2.3", True), ("192.168.0.9", True), ("172.16.0.1", True), ("::1", True),
        ("fd00::1", True), ("fe80::1%eth0", True), ("::ffff:10.0.0.1", True), ("8.8.8.8", False),
        ("172.32.0.1", False), ("2606:4700::1111", False), ("::ffff:8.8.8.8", False), ("0.0.0.0", False),
    ],
)  # fmt: skip
def test_private_addresses(address: str, expected: bool) -> None:
    assert is_private(address) is expected


Names = dict[str, list[str]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """What names stand for, which a test may change; a name that is not there is not known."""
    known: Names = {}

    async def look_up(self: object, host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        if not known.get(host):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in known[host]]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", look_up)
    return known


async def test_clear_text_stays_on_private_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is encrypted; nothing is sent before."""
    connection = Connection(replace(OPTIONS, url="http://8.8.8.8:8000"))
    with pytest.raises(AddressNotPrivate, match=r"unencrypted to 8\.8\.8\.8.*use https"):
        await connection.ask("/health", 5)
    monkeypatch.setattr("models.engines.remote_engine.connection.is_private", lambda address: False)
    with pytest.raises(ReplicaLost, match="ConnectError"):
        await Connection(replace(OPTIONS, url="https://127.0.0.1:1")).ask("/health", 5)


async def test_a_name_is_looked_up_and_checked_for_each_connection(names: Names) -> None:
    """Not known, known, then that of a public address, alone or among others: only the known one is asked."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()

    names["127.0.0.1"] = ["127.0.0.1"]
    async with listening(answer) as there:
        connection = Connection(replace(OPTIONS, url=there.url.replace("127.0.0.1", "replica-1")))
        with pytest.raises(ReplicaLost, match=r"ConnectError at http://replica-1:\d+: the name replica-1 is not known"):
            await connection.ask("/health", 5)
        # Nothing listens at the first address.
        names["replica-1"] = ["127.0.0.2", "127.0.0.1"]
        assert (await connection.ask("/health", 5)).status == 200
        for addresses in (["8.8.8.8"], ["127.0.0.1", "8.8.8.8"]):
            names["replica-1"] = addresses
            with pytest.raises(AddressNotPrivate):
                await connection.ask("/health", 5)
        await connection.close()


async def test_a_name_is_looked_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_up(self: object, *_: object, **__: object) -> list[object]:
        await asyncio.sleep(5)
        return []

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", look_up)
    connection = Connection(replace(OPTIONS, connect_s=0.1))
    with pytest.raises(ReplicaLost, match=r"ConnectTimeout at .*: the name replica-1 is not known in 0\.1 s"):
        await connection.ask("/health", 5)
