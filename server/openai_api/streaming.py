"""The streamed reply: chunks as they come, comments while nothing does, an error chunk after the first byte.

Chat and completions have chunks without names and end with ``[DONE]``. Responses have named events, the last of which
says how the response ended, so nothing follows it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from server.errors import ClientGone, error_reply
from server.guard import log_failure
from server.openai_api import sse
from server.openai_api.exchange import Exchange, unless_disconnected
from server.openai_api.fanout import with_pauses
from server.services import Services

log = logging.getLogger(__name__)
Chunk = Mapping[str, Any]
_Items = AsyncGenerator[Chunk | None, None]


@dataclass(frozen=True, slots=True)
class Framing:
    """How chunks become bytes, and what follows the last."""

    chunk: Callable[[Chunk], bytes]
    end: bytes


CHUNKS: Final = Framing(sse.event, sse.DONE)
EVENTS: Final = Framing(sse.named_event, b"")


class _EventStream(StreamingResponse):
    """Closes the chunks however it ends: also where the client left before the first one was sent."""

    def __init__(self, first: Chunk | None, items: _Items, framing: Framing) -> None:
        super().__init__(_body(first, items, framing), media_type="text/event-stream", headers=sse.HEADERS)
        self._items = items

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._items.aclose()


async def stream_reply(
    request: Request, exchange: Exchange, chunks: AsyncGenerator[Chunk, None], framing: Framing = CHUNKS
) -> StreamingResponse:
    """Errors before the first chunk are raised, so that they get their HTTP status. So the reply begins when the
    exchange has its place; from then on a slow first chunk is not waited for longer than one keep-alive.

    Raises:
        ClientGone: while it waited.
    """
    services: Services = request.app.state.services
    items = with_pauses(chunks, services.settings.server.keepalive_s)
    try:
        first = await unless_disconnected(request, _first(items, exchange))
        if first is None:
            raise ClientGone("the client went away before its answer began")
    except BaseException:
        await items.aclose()
        raise
    return _EventStream(first[0], items, framing)


async def _first(items: _Items, exchange: Exchange) -> tuple[Chunk | None]:
    """The first chunk; None where it is time to begin without one."""
    try:
        while (first := await anext(items)) is None and not exchange.has_place:
            pass
    except StopAsyncIteration:
        return (None,)
    return (first,)


async def _body(first: Chunk | None, items: _Items, framing: Framing) -> AsyncIterator[bytes]:
    async with aclosing(items) as rest:
        yield framing.chunk(first) if first is not None else sse.KEEPALIVE
        try:
            async for chunk in rest:
                yield framing.chunk(chunk) if chunk is not None else sse.KEEPALIVE
        except Exception as error:
            log_failure(error)
            yield sse.error_event(error_reply(error))
        if framing.end:
            yield framing.end
