"""Server-sent events: from JSON-able chunks to bytes. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from server.error_reply import ErrorReply

DONE = b"data: [DONE]\n\n"
# A comment line: every SSE reader skips it, and proxies see that the stream lives.
KEEPALIVE = b": waiting\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def is_stream(start: Mapping[str, Any]) -> bool:
    """Of a reply's ``http.response.start``."""
    return bool(dict(start["headers"]).get(b"content-type", b"").startswith(b"text/event-stream"))


def event(chunk: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def named_event(chunk: Mapping[str, Any]) -> bytes:
    """An event whose name is the chunk's ``type``, as the Responses API has them."""
    return b"event: " + str(chunk["type"]).encode() + b"\n" + event(chunk)


def error_event(reply: ErrorReply) -> bytes:
    """An error after the first byte: the status line is gone, so the chunk is the error object."""
    return event(reply.body)
