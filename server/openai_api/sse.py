"""Encode JSON-able chunks as server-sent events. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from server.error_reply import ErrorReply

DONE = b"data: [DONE]\n\n"
# A comment line: SSE clients ignore it, and it prevents idle timeouts of proxies.
KEEPALIVE = b": waiting\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def is_stream(start: Mapping[str, Any]) -> bool:
    """Return whether the ``http.response.start`` message begins an event stream."""
    return bool(dict(start["headers"]).get(b"content-type", b"").startswith(b"text/event-stream"))


def event(chunk: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def named_event(chunk: Mapping[str, Any]) -> bytes:
    """Encode a chunk as an event with its ``type`` as the name, as in the Responses API."""
    return b"event: " + str(chunk["type"]).encode() + b"\n" + event(chunk)


def error_event(reply: ErrorReply) -> bytes:
    """Encode an error after the first byte as an error object: the status line was sent already."""
    return event(reply.body)
