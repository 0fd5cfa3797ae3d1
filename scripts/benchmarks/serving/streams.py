"""Read many streams from one event loop and record each chunk with its time of arrival."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


@dataclass(slots=True)
class Outcome:
    """One request. ``text`` joins its pieces in the order in which they came; ``done``: it ended with [DONE]; ``error``
    is the code of the error object, wherever it stood; ``is_broken``: the connection ended inside the reply. Seconds
    count from the first byte sent; ``silence_s`` is the longest time between two pieces, or
    between the last one and [DONE]."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[str] = field(default_factory=list)
    trace_id: str = ""
    error: str = ""
    done: bool = False
    is_broken: bool = False
    status_s: float = 0.0
    first_s: float = 0.0
    total_s: float = 0.0
    silence_s: float = 0.0

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class Target:
    """``url`` without path; ``key`` "" sends none."""

    url: str
    key: str = ""

    async def open(
        self, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a chat request, or one for a completion where the body has a prompt; the reply is left unread."""
        parts = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=2**20)
        data = json.dumps(body).encode()
        lines = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": str(len(data))}
        lines |= {"Authorization": f"Bearer {self.key}"} if self.key else {}
        head = "".join(f"{name}: {value}\r\n" for name, value in {**lines, **(headers or {})}.items())
        path = "/v1/completions" if "prompt" in body else "/v1/chat/completions"
        writer.write(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + data)
        return reader, writer

    async def ask(self, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Outcome:
        """Read the whole reply, streamed or not. A connection that breaks leaves the outcome as it was by then."""
        outcome, began = Outcome(), time.monotonic()
        reader, writer = await self.open(body, headers)
        try:
            await _head(reader, outcome)
            outcome.status_s = time.monotonic() - began
            number, last = 0, 0.0
            async for data in _events(reader, outcome.headers):
                _take(data, outcome)
                if len(outcome.pieces) > number or outcome.done:
                    now = time.monotonic() - began
                    outcome.first_s = outcome.first_s or now
                    outcome.silence_s = max(outcome.silence_s, now - last) if number else 0.0
                    number, last = len(outcome.pieces), now
        except (OSError, asyncio.IncompleteReadError, ValueError):
            outcome.is_broken = True
        finally:
            outcome.total_s = time.monotonic() - began
            writer.close()
        return outcome


async def _head(reader: asyncio.StreamReader, outcome: Outcome) -> None:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    outcome.status = int(first.split()[1])
    outcome.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


async def _events(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> AsyncIterator[str]:
    """What stands behind ``data: `` or, in a reply that is no stream, its whole body."""
    if headers.get("transfer-encoding") != "chunked":
        yield (await reader.readexactly(int(headers["content-length"]))).decode()
        return
    buffer = b""
    while size := int(await reader.readline(), 16):
        buffer += await reader.readexactly(size)
        await reader.readexactly(2)
        *events, buffer = buffer.split(b"\n\n")
        for event in events:
            if event.startswith(b"data: "):
                yield event.removeprefix(b"data: ").decode()


def _take(data: str, outcome: Outcome) -> None:
    if data == "[DONE]":
        outcome.done = True
        return
    body = json.loads(data)
    outcome.trace_id = body.get("id", outcome.trace_id)
    if "error" in body:
        outcome.error = body["error"]["code"]
    for choice in body.get("choices", []):
        piece = (choice.get("delta") or choice.get("message") or {}).get("content") or choice.get("text")
        if piece:
            outcome.pieces.append(piece)
