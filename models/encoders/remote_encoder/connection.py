"""Post requests to the server of an encoder, within limits of time and size, and repeat them where that may help.

Messages hold the address and the status, never what was sent or received.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import httpx

from models.encoders.base import RemoteEncoderOptions
from models.engines.http_client import KEEP_IDLE_S, ServerKind, Timeouts, build_request
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

    Raises:
        EncoderUnavailable: the address is http, not private, and ``allow_http`` is off; or its name is not known.
    """

    def __init__(self, remote: RemoteEncoderOptions) -> None:
        self.url = remote.url.rstrip("/")
        self._remote = remote
        _check_address(self.url, remote)
        self._transport = httpx.HTTPTransport(
            verify=_ENCODER.tls(self.url, remote.ca_file),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=16, keepalive_expiry=KEEP_IDLE_S),
            trust_env=False,
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
            EncoderUnusable: it refuses the request.
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


def _check_address(url: str, remote: RemoteEncoderOptions) -> None:
    host = _ENCODER.unencrypted_host(url, remote.allow_http)
    if host is None:
        return
    try:
        found = socket.getaddrinfo(*host, type=socket.SOCK_STREAM)
    except OSError as error:
        raise _ENCODER.unknown_host(host[0], error) from error
    _ENCODER.check_private(url, found)
