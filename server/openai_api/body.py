"""Read a request's JSON body within its limits."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from fastapi import Request
from starlette.requests import ClientDisconnect

from server.errors import BodyTooLarge, ClientGone, ForbiddenHost, InvalidRequest

# An escaped surrogate, paired or not.
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# One shared decoder: ``json.loads`` creates a new one at each call with options.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


async def read_json(request: Request, max_bytes: int) -> Any:
    """Return the parsed JSON body.

    Raises:
        BodyTooLarge: the body is longer than ``max_bytes``.
        BodyTooSlow: the body did not arrive in time.
        InvalidRequest: the body is not valid JSON.
        ClientGone: the client disconnected.
        ForbiddenHost: a web form of another site could send this content type.
    """
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type != "application/json":
        raise ForbiddenHost("the body must be sent as application/json")
    sent = await _whole(request, max_bytes)
    try:
        value = _DECODER.decode(sent.decode(json.detect_encoding(sent), "surrogatepass"))
    except (ValueError, RecursionError):
        raise InvalidRequest("the body is not valid JSON") from None
    if _SURROGATE.search(sent):
        _refuse_halves(value)
    return value


async def _whole(request: Request, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > max_bytes:
                raise BodyTooLarge(f"the body is longer than {max_bytes} bytes")
            chunks.append(chunk)
    except ClientDisconnect:
        raise ClientGone("the client went away before its request was here") from None
    return b"".join(chunks)


def _refuse_halves(value: Any) -> None:
    """Check that all texts can be encoded.

    Raises:
        InvalidRequest: a text has a lone surrogate; ``param`` is the top-level field.
    """
    fields = value.items() if isinstance(value, dict) else ((None, value),)
    for name, part in fields:
        try:
            json.dumps([name, part], ensure_ascii=False).encode()
        except (UnicodeEncodeError, RecursionError):
            field = name if isinstance(name, str) and name.isascii() else None
            text = f"{field or 'the body'}: a text has half of a character (a lone surrogate)"
            raise InvalidRequest(text, param=field) from None
