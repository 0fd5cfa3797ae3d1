"""Stream a reply: chunks as they are produced, comments while idle, an error chunk after the first byte.

Chat and completions have unnamed chunks and end with ``[DONE]``. Responses have named events, the last of which states
how the response ended, so nothing follows it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from server.errors import error_reply
from server.guard import log_failure
from server.openai_api import sse
from server.openai_api.attending import attended
from server.openai_api.exchange import Exchange
from server.openai_api.keepalive import KeepAlive
from server.services import Services

log = logging.getLogger(__name__)
Chunk = Mapping[str, Any]
_Chunks = AsyncGenerator[Chunk, None]
# The first chunk, perhaps still pending when the reply begins; None where there are no chunks.
_Opening = asyncio.Future[Chunk | None]


@dataclass(frozen=True, slots=True)
class Framing:
    """Define the encoding of chunks, and the bytes after the last one."""

    chunk: Callable[[Chunk], bytes]
    end: bytes


CHUNKS: Final = Framing(sse.event, sse.DONE)
EVENTS: Final = Framing(sse.named_event, b"")


class _EventStream(StreamingResponse):
    """Close the chunks however the stream ends, also where the client disconnects before the first one."""

    def __init__(self, opening: _Opening, chunks: _Chunks, framing: Framing, keepalive_s: float) -> None:
        super().__init__(_body(opening, chunks, framing), media_type="text/event-stream", headers=sse.HEADERS)
        self._opening = opening
        self._chunks = chunks
        self._keepalive_s = keepalive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kept = KeepAlive(send, self._keepalive_s, scope["state"].get("send_piece"))
        try:
            async with kept:
                await super().__call__(scope, receive, kept)
        finally:
            await _close(self._opening, self._chunks)


async def stream_reply(
    request: Request, exchange: Exchange, chunks: _Chunks, framing: Framing = CHUNKS
) -> StreamingResponse:
    """Return the streaming reply; errors before the first chunk are raised, so that they get their HTTP status.

    The reply begins after admission of the exchange, with the first chunk or after one keep-alive interval without it.

    Raises:
        ClientGone: the client disconnected while waiting.
    """
    services: Services = request.app.state.services
    keepalive_s = services.settings.server.keepalive_s
    opening = asyncio.ensure_future(_first(chunks))
    try:
        async with attended(request.receive):
            await _begins(opening, exchange, keepalive_s)
    except BaseException:
        await _close(opening, chunks)
        raise
    return _EventStream(opening, chunks, framing, keepalive_s)


async def _first(chunks: _Chunks) -> Chunk | None:
    return await anext(chunks, None)


async def _begins(opening: _Opening, exchange: Exchange, patience_s: float) -> None:
    """Wait for the first chunk, or until the reply begins without it.

    Raises:
        Exception: whatever the chunks raise.
    """
    while not opening.done():
        await asyncio.wait({opening}, timeout=patience_s)
        if exchange.has_place:
            break
    if opening.done():
        opening.result()


async def _close(opening: _Opening, chunks: _Chunks) -> None:
    """Cancel the pending first chunk, then close the chunks: a running generator cannot be closed."""
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    await chunks.aclose()


async def _body(opening: _Opening, chunks: _Chunks, framing: Framing) -> AsyncIterator[bytes]:
    try:
        if not opening.done():
            yield sse.KEEPALIVE
        if (first := await opening) is not None:
            yield framing.chunk(first)
            async for chunk in chunks:
                yield framing.chunk(chunk)
    except Exception as error:
        log_failure(error)
        yield sse.error_event(error_reply(error))
    if framing.end:
        yield framing.end
