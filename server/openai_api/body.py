"""Reads a request's JSON body within its limits."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request

from server.errors import BodyTooLarge, ForbiddenHost, InvalidRequest


async def read_json(request: Request, max_bytes: int) -> Any:
    """Raises BodyTooLarge, InvalidRequest, or ForbiddenHost for a body a web form of another site could send."""
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type != "application/json":
        raise ForbiddenHost("the body must be sent as application/json")
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raise BodyTooLarge(f"the body is longer than {max_bytes} bytes")
        chunks.append(chunk)
    try:
        return json.loads(b"".join(chunks), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise InvalidRequest("the body is not valid JSON") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
