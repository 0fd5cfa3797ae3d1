"""The streamed reply: chunks as they come, comments while nothing does, an error chunk after the first byte."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from fastapi.responses import StreamingResponse

from server.errors import error_reply
from server.guard import log_failure
from server.openai_api import sse
from server.openai_api.fanout import with_pauses

log = logging.getLogger(__name__)
Chunk = Mapping[str, Any]


async def stream_reply(chunks: AsyncGenerator[Chunk, None], keepalive_s: float) -> StreamingResponse:
    """Errors before the first chunk are raised, so that they get their HTTP status; a slow first chunk is not waited
    for longer than one keep-alive."""
    items = with_pauses(chunks, keepalive_s)
    try:
        first = await anext(items)
    except StopAsyncIteration:
        first = None
    return StreamingResponse(_body(first, items), media_type="text/event-stream", headers=sse.HEADERS)


async def _body(first: Chunk | None, items: AsyncGenerator[Chunk | None, None]) -> AsyncIterator[bytes]:
    async with aclosing(items) as rest:
        yield sse.event(first) if first is not None else sse.KEEPALIVE
        try:
            async for chunk in rest:
                yield sse.event(chunk) if chunk is not None else sse.KEEPALIVE
        except Exception as error:
            log_failure(error)
            yield sse.error_event(error_reply(error))
        yield sse.DONE
