"""Send one request and read one reply within its limits.

No other module of server and retrieval imports httpx or opens connections. It drives httpx's transport, not its client:
so there are no redirects, cookies or proxies from the environment, and no log line with the URL, which contains the
question and the key. Knows nothing of calls, retries or caches.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import httpx

from retrieval.errors import NCBI_MALFORMED, NCBI_TIMEOUT, NCBI_TOO_LARGE, NCBI_UNAVAILABLE, NcbiError
from retrieval.ncbi.calls.urls import OutgoingRequest

# 1/rate exactly is not enough: NCBI refuses requests spaced 0.333 s apart and takes those 0.37 s apart.
_MARGIN: Final = 1.1
_MAX_SERVICE_CONNECTIONS: Final = 256


class Clock(Protocol):
    """Provide time in seconds; ``now`` never goes back."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """Read the monotonic clock of the system."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def interval_for(rate_per_s: float) -> float:
    """Return the seconds between two requests for a rate that NCBI permits."""
    return _MARGIN / rate_per_s


def ncbi_rate(*, has_key: bool) -> float:
    """Return the requests per second that NCBI's rules permit."""
    return 10.0 if has_key else 3.0


class RateLimiter:
    """Space all requests of the process; an ``interval_s`` of 0 adds no wait."""

    def __init__(self, interval_s: float, clock: Clock) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._next_at = float("-inf")
        # asyncio's lock wakes its waiters in order, and a cancelled waiter just leaves the queue.
        self._lock = asyncio.Lock()

    async def acquire(self) -> None:
        """Wait for the caller's turn; a caller cancelled while it waits uses no turn."""
        async with self._lock:
            # A loop, because delay may postpone the next turn during the sleep.
            while (wait := self._next_at - self._clock.now()) > 0:
                await self._clock.sleep(wait)
            self._next_at = self._clock.now() + self._interval_s

    def delay(self, seconds: float) -> None:
        """Delay all requests by at least ``seconds`` from now, as the server has requested."""
        self._next_at = max(self._next_at, self._clock.now() + seconds)


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendLimits:
    """Limit one request: seconds to connect, seconds in total, bytes of the body."""

    connect_timeout_s: float = 5.0
    timeout_s: float = 30.0
    max_reply_bytes: int = 8 * 2**20


@dataclass(frozen=True, slots=True)
class HttpReply:
    """Hold one reply; ``retry_after`` is the header as sent, "" if there is none."""

    status: int
    content_type: str
    retry_after: str
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class Connection:
    """Say how a service of the institution is connected to.

    ``socket``: its Unix socket, None for its address. ``ca_file`` replaces the system's authorities; ``certificate``
    and ``certificate_key`` are what the client shows.
    """

    socket: Path | None = None
    ca_file: Path | None = None
    certificate: Path | None = None
    certificate_key: Path | None = None

    def tls_context(self) -> ssl.SSLContext:
        """Return what certificates are checked and shown with.

        Raises:
            OSError: a file cannot be read or holds no certificate or key (``ssl.SSLError`` is one).
        """
        context = ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.certificate_key)
        return context


class HttpSender:
    """Send requests over one connection pool, shared by all users.

    With ``app``, requests go to that ASGI application in this process instead; with ``connection``, to one service.
    """

    def __init__(self, limits: SendLimits, app: AsgiApp | None = None, *, connection: Connection | None = None) -> None:
        self._limits = limits
        self._app = app
        self._connection = connection
        self._transport: httpx.AsyncBaseTransport | None = None
        self._opening = asyncio.Lock()

    @property
    def in_process(self) -> bool:
        return self._app is not None

    async def send(self, request: OutgoingRequest, limits: SendLimits | None = None) -> HttpReply:
        """Send a request and return its reply, whatever the HTTP status.

        ``limits`` apply to this request instead of the sender's own.

        Raises:
            NCBI_TIMEOUT: the connection or the reply took too long.
            NCBI_UNAVAILABLE: NCBI cannot be reached, or the connection broke.
            NCBI_TOO_LARGE: the body exceeds its limit.
            NCBI_MALFORMED: the reply is compressed.
        """
        limits = limits or self._limits
        transport = await self._opened()
        try:
            async with asyncio.timeout(limits.timeout_s):
                return await _round_trip(transport, _to_httpx(request, limits), limits.max_reply_bytes)
        except (TimeoutError, httpx.TimeoutException) as error:
            slow = "the connection" if isinstance(error, httpx.ConnectTimeout) else "NCBI"
            seconds = limits.connect_timeout_s if isinstance(error, httpx.ConnectTimeout) else limits.timeout_s
            raise NcbiError(f"{slow} timed out after {seconds:g} s", NCBI_TIMEOUT) from error
        except httpx.ConnectError as error:
            raise NcbiError("NCBI cannot be reached", NCBI_UNAVAILABLE) from error
        except (httpx.TransportError, httpx.StreamError) as error:
            raise NcbiError("the connection to NCBI broke", NCBI_UNAVAILABLE) from error

    async def save(self, url: str, path: Path, watch: Callable[[int, int], None]) -> None:
        """Write what an address sends into a file, whatever its size, behind what a call that broke off left there.

        ``watch`` is told the bytes that are there and all, and may raise.

        Raises:
            NCBI_UNAVAILABLE: NCBI cannot be reached, sends something else, or the connection broke.
            OSError: the file cannot be written.
        """
        timeout = httpx.Timeout(self._limits.timeout_s, connect=self._limits.connect_timeout_s).as_dict()
        headers = {"accept-encoding": "identity", "user-agent": "arrowhead"}
        transport = await self._opened()
        with path.open("ab") as file:
            headers["range"] = f"bytes={file.tell()}-"
            try:
                request = httpx.Request("GET", url, headers=headers, extensions={"timeout": timeout})
                response = await transport.handle_async_request(request)
                await _append(response, file, watch)
            except (httpx.TransportError, httpx.StreamError) as error:
                raise NcbiError(
                    "the connection to NCBI broke; the same again goes on from there", NCBI_UNAVAILABLE
                ) from error

    async def close(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    async def _opened(self) -> httpx.AsyncBaseTransport:
        async with self._opening:
            if self._transport is None:
                # On a thread: it reads the certificate store, which would block the event loop.
                self._transport = await asyncio.to_thread(_transport, self._app, self._connection)
            return self._transport


async def _round_trip(transport: httpx.AsyncBaseTransport, request: httpx.Request, cap: int) -> HttpReply:
    response = await transport.handle_async_request(request)
    try:
        if response.headers.get("content-encoding", "identity") != "identity":
            # Compression was not requested, and a small compressed body can expand to any size.
            raise NcbiError("NCBI sent a compressed reply", NCBI_MALFORMED)
        body = await _read(response, cap)
    finally:
        await response.aclose()
    headers = response.headers
    return HttpReply(response.status_code, headers.get("content-type", ""), headers.get("retry-after", ""), body)


async def _append(response: httpx.Response, file: BinaryIO, watch: Callable[[int, int], None]) -> None:
    try:
        if response.status_code == 416 and file.tell():  # all of it is there
            return
        if response.status_code not in (200, 206):
            raise NcbiError(f"NCBI sent {response.status_code} in place of the file", NCBI_UNAVAILABLE)
        if response.status_code == 200:
            file.truncate(0)
        total = os.fstat(file.fileno()).st_size + int(response.headers.get("content-length", 0))
        async for chunk in response.aiter_raw():
            await asyncio.to_thread(file.write, chunk)
            watch(file.tell(), total)
    finally:
        await response.aclose()


async def _read(response: httpx.Response, cap: int) -> bytes:
    announced = response.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > cap:
        raise NcbiError(f"the reply is larger than {cap} bytes", NCBI_TOO_LARGE)
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > cap:
            raise NcbiError(f"the reply is larger than {cap} bytes", NCBI_TOO_LARGE)
    return bytes(body)


def _to_httpx(request: OutgoingRequest, limits: SendLimits) -> httpx.Request:
    headers = {"accept-encoding": "identity", "user-agent": "arrowhead"}
    if request.body:
        headers["content-type"] = request.content_type
    timeout = httpx.Timeout(limits.timeout_s, connect=limits.connect_timeout_s).as_dict()
    if request.bearer:
        headers["authorization"] = f"Bearer {request.bearer}"
    content = request.body or None
    return httpx.Request(request.method, request.url, headers=headers, content=content, extensions={"timeout": timeout})


def _transport(app: AsgiApp | None, connection: Connection | None) -> httpx.AsyncBaseTransport:
    if app is not None:
        return httpx.ASGITransport(app=app, raise_app_exceptions=False)
    # The API permits few requests a second; open connections wait for slow replies.
    limits = httpx.Limits(max_connections=64)
    if connection is None:
        return httpx.AsyncHTTPTransport(limits=limits, trust_env=False, retries=0)
    # The service waits in NCBI's place: as many connections as it has places.
    limits = httpx.Limits(max_connections=_MAX_SERVICE_CONNECTIONS)
    if connection.socket is not None:
        return httpx.AsyncHTTPTransport(limits=limits, trust_env=False, uds=str(connection.socket))
    return httpx.AsyncHTTPTransport(limits=limits, trust_env=False, verify=connection.tls_context())
