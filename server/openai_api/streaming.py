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

from fastapi.responses import StreamingResponse

from server.errors import error_reply
from server.guard import log_failure
from server.openai_api import sse
from server.openai_api.fanout import with_pauses

log = logging.getLogger(__name__)
Chunk = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Framing:
    """How chunks become bytes, and what follows the last."""

    chunk: Callable[[Chunk], bytes]
    end: bytes


CHUNKS: Final = Framing(sse.event, sse.DONE)
EVENTS: Final = Framing(sse.named_event, b"")


async def stream_reply(
    chunks: AsyncGenerator[Chunk, None], keepalive_s: float, framing: Framing = CHUNKS
) -> StreamingResponse:
    """Errors before the first chunk are raised, so that they get their HTTP status; a slow first chunk is not waited
    for longer than one keep-alive."""
    items = with_pauses(chunks, keepalive_s)
    try:
        first = await anext(items)
    except StopAsyncIteration:
        first = None
    return StreamingResponse(_body(first, items, framing), media_type="text/event-stream", headers=sse.HEADERS)


async def _body(
    first: Chunk | None, items: AsyncGenerator[Chunk | None, None], framing: Framing
) -> AsyncIterator[bytes]:
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
