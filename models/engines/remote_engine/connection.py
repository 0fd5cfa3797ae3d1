"""Send requests to one model server over HTTP and read its replies, within limits of time and size.

Drives httpx's transport, not its client: no redirects, cookies, proxies of the environment or log lines. Only the
configured address is asked. Knows nothing of tokens.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpcore
import httpx

from models.engines.base import is_private
from models.engines.remote_engine.wire import AddressNotPrivate, ReplicaLost, ReplicaSilent
from models.types import ServerAddress

# Below the 5 s after which vLLM closes an idle connection: one that it is just closing would look like its death.
_KEEP_IDLE_S: Final = 2.0
_WRITE_S: Final = 30.0
Header = tuple[bytes, bytes]
_MAX_REPLY_BYTES: Final = 32 * 2**20
# One event holds the tokens of one step; with 20 alternatives each some 2 KiB a token.
_MAX_EVENT_BYTES: Final = 4 * 2**20
_EVENT_END: Final = b"\n\n"


@dataclass(frozen=True, slots=True)
class ServerKind:
    """Name what messages about a kind of server say: ``url`` is the setting of its address, ``sent`` what it gets."""

    url: str
    sent: str

    def refusal(self, url: str, addresses: Iterable[str]) -> str:
        """Return why an http server with these addresses may not be asked, "" where all are in private networks."""
        public = next((address for address in addresses if not is_private(address)), "")
        return public and (
            f"{self.url}: {url} would send {self.sent} unencrypted to {public}, which is no private address: use https"
        )


MODEL: Final = ServerKind("model.url", "prompts")


@dataclass(frozen=True, slots=True)
class Reply:
    """Hold a whole reply."""

    status: int
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON.

        Raises:
            ReplicaLost: it is none.
        """
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise ReplicaLost("the reply is no JSON") from error


class Connection:
    """Reach one server; ``url`` has no path."""

    def __init__(self, address: ServerAddress, kind: ServerKind = MODEL) -> None:
        self.url = address.url.rstrip("/")
        self._address = address
        is_secure = self.url.startswith("https")
        # The authorities of the system, or of SSL_CERT_FILE and SSL_CERT_DIR.
        certificates = ssl.create_default_context() if is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._transport = _Transport(certificates, None if is_secure else _PrivateNetwork(self.url, kind))

    async def close(self) -> None:
        await self._transport.aclose()

    async def ask(self, path: str, timeout_s: float, body: Mapping[str, Any] | None = None) -> Reply:
        """Return the reply to a GET, or to a POST of ``body``, whatever its status.

        Raises:
            ReplicaLost: there is none in ``timeout_s``.
        """
        async with self.bounded(timeout_s), self.open(path, body) as response:
            return Reply(response.status_code, await read_whole(response))

    @asynccontextmanager
    async def bounded(self, timeout_s: float) -> AsyncIterator[None]:
        """Give up what the block does after ``timeout_s``.

        Raises:
            ReplicaLost: the block took longer.
        """
        try:
            async with asyncio.timeout(timeout_s) as limit:
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ReplicaSilent(f"no reply from {self.url} in {timeout_s:g} s") from error

    @asynccontextmanager
    async def open(
        self, path: str, body: Mapping[str, Any] | None, headers: Sequence[Header] = ()
    ) -> AsyncIterator[httpx.Response]:
        """Give the reply as its head arrives; leaving the block closes the connection.

        Raises:
            ReplicaLost: the replica cannot be reached, or the connection breaks, also inside the block.
        """
        try:
            response = await self._transport.handle_async_request(self._request(path, body, headers))
            try:
                yield response
            finally:
                await response.aclose()
        except (httpx.TransportError, httpx.StreamError) as error:
            kind = ReplicaSilent if isinstance(error, httpx.TimeoutException) else ReplicaLost
            raise kind(f"{type(error).__name__} at {self.url}: {error}") from error

    def _request(self, path: str, body: Mapping[str, Any] | None, headers: Sequence[Header]) -> httpx.Request:
        sent = [(b"accept-encoding", b"identity"), *headers]
        if body is not None:
            sent.append((b"content-type", b"application/json"))
        if self._address.api_key is not None:
            sent.append((b"authorization", f"Bearer {self._address.api_key}".encode()))
        content = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        # Time spent on reading is bounded by the reader, which knows whether a reply may be silent.
        limits = {"connect": self._address.connect_s, "read": None, "write": _WRITE_S, "pool": None}
        method = "GET" if body is None else "POST"
        return httpx.Request(method, f"{self.url}{path}", headers=sent, content=content, extensions={"timeout": limits})


async def read_whole(response: httpx.Response) -> bytes:
    """Return the body of a reply.

    Raises:
        ReplicaLost: it is too long.
    """
    body = bytearray()
    async for piece in response.stream:  # type: ignore[union-attr]  # of an asynchronous transport
        body += piece
        if len(body) > _MAX_REPLY_BYTES:
            raise ReplicaLost("the reply is too long")
    return bytes(body)


async def events_of(response: httpx.Response) -> AsyncGenerator[Any, None]:
    """Yield the JSON of each server-sent event up to ``[DONE]``.

    Raises:
        ReplicaLost: the stream ends before that, or holds something else.
    """
    buffer = b""
    async for piece in response.stream:  # type: ignore[union-attr]  # of an asynchronous transport
        *events, buffer = (buffer + piece).split(_EVENT_END)
        for event in events:
            data = event.strip()
            if not data.startswith(b"data:"):
                continue  # a comment
            data = data[5:].strip()
            if data == b"[DONE]":
                return
            try:
                yield json.loads(data)
            except ValueError as error:
                raise ReplicaLost("an event is no JSON") from error
        if len(buffer) > _MAX_EVENT_BYTES:
            raise ReplicaLost("an event is too long")
    raise ReplicaLost("the stream ended early")


class _Transport(httpx.AsyncHTTPTransport):
    """Pool the connections to one server; ``network`` makes them, httpcore's own where it is None."""

    def __init__(self, certificates: ssl.SSLContext, network: httpcore.AsyncNetworkBackend | None) -> None:
        super().__init__(verify=certificates, trust_env=False)
        # httpx passes no network on to the pool. The engine bounds its requests; a pool that makes one wait would look
        # like a slow replica.
        self._pool = httpcore.AsyncConnectionPool(
            certificates,
            max_connections=None,
            max_keepalive_connections=64,
            keepalive_expiry=_KEEP_IDLE_S,
            network_backend=network,
        )


class _PrivateNetwork(httpcore.AnyIOBackend):
    """Connect to private addresses only, so that prompts do not pass a public network in clear text.

    A name is looked up for each new connection, and the connection goes to an address that was checked: a name that
    changes between a check and its use cannot lead it elsewhere.
    """

    def __init__(self, url: str, kind: ServerKind) -> None:
        self._url = url
        self._kind = kind

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._addresses(host, port)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"the name {host} is not known in {timeout:g} s") from error
        failure: Exception = httpcore.ConnectError(f"the name {host} has no address")
        for address in addresses:
            try:
                return await super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a name, or the address itself.

        Raises:
            httpcore.ConnectError: the name is not known.
            AddressNotPrivate: one of them is not private.
        """
        try:
            known = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore.ConnectError(f"the name {host} is not known") from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in known))
        if reason := self._kind.refusal(self._url, addresses):
            raise AddressNotPrivate(reason)
        return addresses
