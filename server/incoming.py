"""One request as it comes in: the size of its head, and the time that its body may take. Knows nothing of routes.

A body is waited for as long as it keeps coming at a rate, so that a large file has time and a trickle has none. What is
left of a body when its reply begins is taken for a moment, as a client that still sends would not get to read why it
was refused; a connection whose body did not end then carries no other request.
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
# Bytes a second; what came faster earns time for the rest.
_LEAST_RATE: Final = 16_384
_LINGER_BYTES: Final = 16 * 2**20
_LINGER_S: Final = 2.0


def check_head(scope: Scope) -> None:
    """Raises HeadTooLarge."""
    headers = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers) + len(scope.get("query_string", b""))
    if len(headers) > _MAX_HEADERS or size + len(scope.get("raw_path") or b"") > MAX_HEAD_BYTES:
        raise HeadTooLarge(f"at most {_MAX_HEADERS} headers, and {MAX_HEAD_BYTES} bytes with the address, are taken")


class DecodedHeaders(Headers):
    """Once, not at each question: a request is asked for a dozen names, most of which are not there."""

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
    """Stands for ``receive`` of one request. ``timeout_s`` is the time for a body of no length."""

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
        """Raises BodyTooSlow while there is more of the body to come."""
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._began + self._timeout_s + self._size / _LEAST_RATE):
                return self._note(await self._receive())
        except TimeoutError:
            self._late = True
            raise BodyTooSlow("the body did not come in time") from None

    async def settle(self) -> bool:
        """Whether the connection can carry another request after this one's reply, which begins now."""
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
