"""Comments in a stream while nothing else comes, so that no proxy takes it for dead.

One clock for each stream, and nothing for each of its pieces: an answer has thousands.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Send

from server.openai_api import sse


class KeepAlive:
    """Stands for ``send`` of one reply, each piece of which must be whole lines. Within ``async with`` a stream that
    has begun and not ended carries a comment each time it was silent for ``every_s``."""

    def __init__(self, send: Send, every_s: float) -> None:
        self._send = send
        self._every_s = every_s
        self._is_stream = False
        self._is_busy = False
        self._last = 0.0
        self._clock: asyncio.TimerHandle | None = None
        self._comment: asyncio.Task[None] | None = None

    async def __call__(self, message: Any) -> None:
        await self._pass_on(message)
        if message["type"] == "http.response.start":
            self._is_stream = sse.is_stream(message)
        elif not message.get("more_body", False):
            self._is_stream = False

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        self._clock = loop.call_later(self._every_s, self._beat, loop)

    async def __aexit__(self, *_: object) -> None:
        if self._clock is not None:
            self._clock.cancel()
        if self._comment is not None:
            self._comment.cancel()
            await asyncio.gather(self._comment, return_exceptions=True)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        due = self._last + self._every_s
        if due <= loop.time():
            if self._is_stream and not self._is_busy:
                said = {"type": "http.response.body", "body": sse.KEEPALIVE, "more_body": True}
                self._comment = loop.create_task(self._pass_on(said), name="keep-alive")
            due = loop.time() + self._every_s
        self._clock = loop.call_at(due, self._beat, loop)

    async def _pass_on(self, message: Any) -> None:
        self._is_busy = True
        try:
            await self._send(message)
        finally:
            self._is_busy = False
            self._last = asyncio.get_running_loop().time()
