"""Bound one incoming request: the size of its head, and the time of its body.

A body may take time as long as it arrives at a minimum rate, so that a large file succeeds and a trickle does not. When
the reply begins, the rest of the body is read for a moment, since a client that still sends would not read why it was
refused; a connection whose body did not end then carries no other request. Knows nothing of routes.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

from server.errors import BodyTooSlow, HeadTooLarge

MAX_HEAD_BYTES: Final = 65_536
_MAX_HEADERS: Final = 256
# Bytes per second; a faster start leaves more time for the rest.
_LEAST_RATE: Final = 16_384
_LINGER_BYTES: Final = 16 * 2**20
_LINGER_S: Final = 2.0


def check_head(scope: Scope) -> None:
    """Check the number and size of the headers, with the address.

    Raises:
        HeadTooLarge: a limit is exceeded.
    """
    headers = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers) + len(scope.get("query_string", b""))
    if len(headers) > _MAX_HEADERS or size + len(scope.get("raw_path") or b"") > MAX_HEAD_BYTES:
        raise HeadTooLarge(f"at most {_MAX_HEADERS} headers, and {MAX_HEAD_BYTES} bytes with the address, are taken")


class DecodedHeaders(Headers):
    """Decode the headers once, since a request looks up a dozen names, most of which are absent."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope=scope)
        self._values: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def __getitem__(self, key: str) -> str:
        return self._values[key.lower()][0]

    def get(self, key: str, default: Any = None) -> Any:
        values = self._values.get(key.lower())
        return values[0] if values else default

    def getlist(self, key: str) -> list[str]:
        return list(self._values.get(key.lower(), ()))

    def __contains__(self, key: Any) -> bool:
        return isinstance(key, str) and key.lower() in self._values


class Body:
    """Read the body of one request under a time limit, in place of ``receive``.

    ``timeout_s`` is the time for an empty body; each byte extends it at the minimum rate.
    """

    def __init__(self, headers: Headers, receive: Receive, timeout_s: float) -> None:
        self._receive = receive
        self._timeout_s = timeout_s
        self._began = asyncio.get_running_loop().time()
        self._size = 0
        self._late = False
        announced = headers.get("content-length", "0")
        self._whole = announced == "0" and "transfer-encoding" not in headers
        self._waits_for_us = headers.get("expect", "").lower() == "100-continue"

    async def __call__(self) -> Message:
        """Return the next message of the body.

        Raises:
            BodyTooSlow: the time is over and the body is incomplete.
        """
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._began + self._timeout_s + self._size / _LEAST_RATE):
                return self._note(await self._receive())
        except TimeoutError:
            self._late = True
            raise BodyTooSlow("the body did not come in time") from None

    async def settle(self) -> bool:
        """Return whether the connection can carry another request after this reply, which begins now."""
        whole = self._whole
        if whole or self._late or (self._waits_for_us and not self._size):
            return whole
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while not self._whole and self._size <= _LINGER_BYTES:
                    self._note(await self._receive())
        return self._whole

    def _note(self, message: Any) -> Message:
        self._size += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        return dict(message)
