"""Post requests to the server of an encoder, within limits of time and size, and repeat them where that may help.

Messages hold the address and the status, never what was sent or received.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore
import httpx

from models.encoders.base import RemoteEncoderOptions
from models.engines.remote_engine.connection import KEEP_IDLE_S, ServerKind, Timeouts, build_request
from models.errors import EncoderUnavailable, EncoderUnusable

_ROUTE: Final = "/v1/embeddings"
_MAX_REPLY_BYTES: Final = 32 * 2**20
# Waits between the tries of one request: long enough for a restarted process to listen again, short for a query.
_PAUSES_S: Final = (0.2, 0.6, 1.5)
# The server is starting, overloaded or ending, or a proxy before it has none at this moment.
_RETRIED: Final = (429, 500, 502, 503, 504)
_ENCODER: Final = ServerKind("retrieval.encoder_", "passages and questions", EncoderUnavailable)
_REFUSED: Final = {
    400: "it refuses the token ids: its context must be as long as the encoder's, and its route must take token ids",
    401: "it requires another key: retrieval.encoder_api_key",
    403: "it requires another key: retrieval.encoder_api_key",
    404: f"it has no {_ROUTE}: start it with vllm serve FOLDER --runner pooling",
    413: "the request is too long for it: lower retrieval.batch_tokens",
    422: "its route takes no token ids",
}


class Connection:
    """Reach one server from many threads.

    An address with http must be private unless ``allow_http`` is on; this is checked for each connection.

    Raises:
        EncoderUnavailable: the file of certificates cannot be read.
        EncoderUnusable: the address is not private, and no name.
    """

    def __init__(self, remote: RemoteEncoderOptions) -> None:
        self.url = remote.url.rstrip("/")
        self._remote = remote
        is_checked = self.url.startswith("http:") and not remote.allow_http
        if is_checked:
            _refuse_public(self.url)
        self._transport = _Transport(
            _ENCODER.tls(self.url, remote.ca_file), _PrivateNetwork(self.url) if is_checked else None
        )
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._losses = 0
        self._in_flight = 0

    @property
    def losses(self) -> int:
        """Return how often the server could not be reached; where it grew, another server may have come."""
        return self._losses

    def close(self) -> None:
        """Close all connections; a request of another thread ends its try first, and none is repeated."""
        with self._lock:
            self._closed.set()
            is_idle = not self._in_flight
        # A socket that another thread waits for must not be closed under it.
        if is_idle:
            self._transport.close()

    def post(self, body: Mapping[str, Any]) -> bytes:
        """Return the body of the reply to ``body``.

        Raises:
            EncoderUnavailable: the server does not answer, or reports that it cannot now, at the last try; or this
                connection is closed.
            EncoderUnusable: it refuses the request, or must not be asked, as its address is not private.
        """
        failure = ""
        for pause in (*_PAUSES_S, 0.0):
            try:
                with self._under_way():
                    status, reply = self._try(body)
            except (httpx.ConnectError, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as error:
                self._lose()
                failure = type(error).__name__
            except httpx.TransportError as error:
                # It had its time: another try would only double the wait.
                self._lose()
                raise self._unavailable(type(error).__name__) from error
            else:
                if status == 200:
                    return reply
                if status not in _RETRIED:
                    reason = _REFUSED.get(status, "see its log")
                    raise EncoderUnusable(f"the encoder server {self.url} answered with {status}: {reason}")
                failure = f"status {status}"
            self._closed.wait(pause)
        raise self._unavailable(failure)

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        """Count the block as a request in flight; the last one closes the transport where ``close`` left that to it."""
        with self._lock:
            if self._closed.is_set():
                raise EncoderUnavailable(f"the connection to the encoder server {self.url} is closed")
            self._in_flight += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1
                is_last = self._closed.is_set() and not self._in_flight
            if is_last:
                self._transport.close()

    def _try(self, body: Mapping[str, Any]) -> tuple[int, bytes]:
        until = time.monotonic() + self._remote.reply_s
        limits = Timeouts(self._remote.connect_s, self._remote.reply_s)
        response = self._transport.handle_request(
            build_request(f"{self.url}{_ROUTE}", body, self._remote.api_key, limits)
        )
        try:
            reply = bytearray()
            for piece in response.stream:  # type: ignore[union-attr]  # of a synchronous transport
                reply += piece
                if len(reply) > _MAX_REPLY_BYTES:
                    raise EncoderUnusable(f"the encoder server {self.url} sends a reply that is too long")
                if time.monotonic() > until:
                    raise httpx.ReadTimeout("the whole reply")
            return response.status_code, bytes(reply)
        finally:
            response.close()

    def _lose(self) -> None:
        with self._lock:
            self._losses += 1

    def _unavailable(self, failure: str) -> EncoderUnavailable:
        return EncoderUnavailable(f"the encoder server {self.url} does not answer ({failure})")


def _refuse_public(url: str) -> None:
    with suppress(ValueError):  # a name, which is looked up for each connection
        if reason := _ENCODER.refusal(url, [urlsplit(url).hostname or ""]):
            raise EncoderUnusable(reason)


class _Transport(httpx.HTTPTransport):
    """Pool the connections to one server; ``network`` makes them, httpcore's own where it is None."""

    def __init__(self, certificates: ssl.SSLContext, network: httpcore.NetworkBackend | None) -> None:
        super().__init__(verify=certificates, trust_env=False)
        # httpx passes no network on to the pool.
        self._pool = httpcore.ConnectionPool(
            certificates,
            max_connections=None,
            max_keepalive_connections=16,
            keepalive_expiry=KEEP_IDLE_S,
            network_backend=network,
        )


class _PrivateNetwork(httpcore.NetworkBackend):
    """Connect to private addresses only, each looked up and checked for its connection, as the remote engine does."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore.ConnectError(f"the name {host} is not known") from error
        addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
        if reason := _ENCODER.refusal(self._url, addresses):
            raise EncoderUnusable(reason)
        failure: Exception = httpcore.ConnectError(f"the name {host} has no address")
        for address in addresses:
            try:
                return self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)
