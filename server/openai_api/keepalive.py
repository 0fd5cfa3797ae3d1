"""Send comments in an idle stream, so that no proxy closes the connection.

One timer per stream and no work per piece: an answer has thousands of pieces.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from starlette.types import Send

from server.openai_api import sse


class KeepAlive:
    """Replace ``send`` for one reply, each piece of which must consist of whole lines.

    Within ``async with``, a stream that has begun and not ended sends a comment after each ``every_s`` seconds of
    silence. ``send_piece`` is a faster path for the messages after the start.
    """

    def __init__(self, send: Send, every_s: float, send_piece: Send | None = None) -> None:
        self._send = send
        self._send_piece = send_piece or send
        self._every_s = every_s
        self._is_stream = False
        self._is_busy = False
        self._last = 0.0
        self._clock: asyncio.TimerHandle | None = None
        self._comment: asyncio.Task[None] | None = None

    async def __call__(self, message: Any) -> None:
        self._is_busy = True
        try:
            if message["type"] == "http.response.start":
                await self._send(message)
                self._is_stream = sse.is_stream(message)
            else:
                await self._send_piece(message)
                self._is_stream = self._is_stream and message.get("more_body", False)
        finally:
            self._is_busy = False
            self._last = time.monotonic()

    async def __aenter__(self) -> None:
        self._last = time.monotonic()
        self._clock = asyncio.get_running_loop().call_later(self._every_s, self._beat)

    async def __aexit__(self, *_: object) -> None:
        if self._clock is not None:
            self._clock.cancel()
        if self._comment is not None:
            self._comment.cancel()
            await asyncio.gather(self._comment, return_exceptions=True)

    def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = self._last + self._every_s - time.monotonic()
        if wait_s <= 0:
            if self._is_stream and not self._is_busy:
                said = {"type": "http.response.body", "body": sse.KEEPALIVE, "more_body": True}
                self._comment = loop.create_task(self(said), name="keep-alive")
            wait_s = self._every_s
        self._clock = loop.call_later(wait_s, self._beat)
