"""A loopback NCBI for tests that need it to misbehave: a real socket server with one scripted answer per request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from urllib.parse import parse_qsl, urlsplit

CHUNK = b"x" * 65536


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as received; ``params`` from query and form together."""

    method: str
    path: str
    params: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How to answer. ``hang``: read the request, say nothing. ``drop``: close without a word.

    ``announced`` overrides Content-Length (a larger one than the body is a connection that breaks off; -1 announces
    none). ``stream_bytes`` sends that much after the body. ``trickle_s`` is the pause after every byte.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: bool = False
    drop: bool = False
    announced: int | None = None
    stream_bytes: int = 0
    trickle_s: float = 0.0
    delay_s: float = 0.0


Handler = Callable[[Seen], Answer]


class NcbiServer:
    """``async with NcbiServer(handler) as server``; the handler runs once per request, ``seen`` has them all."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.seen: list[Seen] = []
        self.bytes_sent = 0
        self.url = ""

    async def __aenter__(self) -> NcbiServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:  # fmt: skip
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request, *lines = head.split("\r\n")
            headers = {n.strip().lower(): v.strip() for n, _, v in (line.partition(":") for line in lines)}
            form = await reader.readexactly(int(headers.get("content-length", "0")))
            method, target, _ = request.split(" ")
            params = dict(parse_qsl(urlsplit(target).query)) | dict(parse_qsl(form.decode()))
            seen = Seen(method, urlsplit(target).path, params)
            self.seen.append(seen)
            await self._reply(self._handler(seen), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the client has gone, as it may
        finally:
            self._open.discard(writer)
            writer.close()

    async def _reply(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer.hang:
            await reader.read()  # until the client hangs up
        if answer.hang or answer.drop:
            return
        await asyncio.sleep(answer.delay_s)
        size = len(answer.body) + answer.stream_bytes if answer.announced is None else answer.announced
        headers = {"Content-Type": "text/plain", "Connection": "close", **answer.headers}
        if size >= 0:
            headers["Content-Length"] = str(size)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {answer.status} X\r\n{lines}\r\n".encode("latin-1"))
        for byte in answer.body if answer.trickle_s else b"":
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(answer.trickle_s)
        writer.write(b"" if answer.trickle_s else answer.body)
        for _ in range(0, answer.stream_bytes, len(CHUNK)):
            writer.write(CHUNK)
            await writer.drain()
            self.bytes_sent += len(CHUNK)
        await writer.drain()


def in_turn(*answers: Answer) -> Handler:
    """Answers one after the other, the last for ever."""
    rest = list(answers)
    return lambda _: rest.pop(0) if len(rest) > 1 else rest[0]
