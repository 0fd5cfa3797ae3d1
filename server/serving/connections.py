"""Bound each connection: what a slow client may hold, and how long.

uvicorn stops taking bytes of a reply when its buffer is full, and asks for more when it is nearly empty; the time
between the two is bounded here. An aborted connection looks to the answer like a client disconnect: the answer ends,
and its place and engine slot become free. A request's head is bounded in bytes and time until it is complete; from then
on ``server.middleware`` bounds its body. Of uvicorn's two parsers only one bounds the size of a head, and neither its
time.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any, Final

log = logging.getLogger(__name__)
# Bytes of a reply that this process buffers per client, and that the kernel does (it allocates twice the number).
STREAM_BUFFER: Final = 65_536
SOCKET_BUFFER: Final = 131_072
# Bytes of an incomplete head; ``server.middleware.check_head`` is stricter, and replies with an error.
HEAD_BUFFER: Final = 131_072


def configure_listener(listener: socket.socket, slow_reader_s: float) -> None:
    """Set the socket options that every connection accepted by ``listener`` inherits."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
    # asyncio sets it only where the listener names its protocol, which ours does not; without it a stream's second
    # packet waits up to 40 ms for the client's acknowledgement of the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A connection may also hang with the end of its reply in the buffers, when no more is written. The kernel aborts
    # it, later than we would: its timeout begins with the first unacknowledged byte, ours when the buffers are full.
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(2 * slow_reader_s * 1000))


class _SlowClientMixin:
    """Abort slow connections, as a mixin that precedes uvicorn's protocol class in the bases."""

    slow_reader_s: float
    slow_head_s: float
    _write_timer: asyncio.TimerHandle | None = None
    _head_timer: asyncio.TimerHandle | None = None
    _raw_transport: asyncio.Transport | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(high=STREAM_BUFFER)
        self._raw_transport = transport
        super().connection_made(transport)  # type: ignore[misc]
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_write_timer()
        self._cancel_head_timer()
        super().connection_lost(exc)  # type: ignore[misc]

    def data_received(self, data: bytes) -> None:
        cycle: Any = getattr(self, "cycle", None)
        is_idle = cycle is None or cycle.response_complete
        is_head = is_idle or not cycle.more_body  # of the next request, while this one is answered
        super().data_received(data)  # type: ignore[misc]
        if getattr(self, "cycle", None) is not cycle:
            self._cancel_head_timer()
            return
        if is_idle:
            self._start_head_timer()
        if is_head:
            self._count_head_bytes(len(data))

    def on_headers_complete(self) -> None:
        # uvicorn keeps the path of an absolute address alone; ``server.middleware.check_host`` compares its host.
        self.scope.setdefault("state", {})["target"] = self.url  # type: ignore[attr-defined]
        super().on_headers_complete()  # type: ignore[misc]

    def pause_writing(self) -> None:
        super().pause_writing()  # type: ignore[misc]
        reason = f"its client took nothing for {self.slow_reader_s:g} s"
        self._write_timer = asyncio.get_running_loop().call_later(self.slow_reader_s, self._abort_connection, reason)

    def resume_writing(self) -> None:
        self._cancel_write_timer()
        super().resume_writing()  # type: ignore[misc]

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            reason = f"no whole request in {self.slow_head_s:g} s"
            self._head_timer = asyncio.get_running_loop().call_later(self.slow_head_s, self._abort_connection, reason)

    def _count_head_bytes(self, num_bytes: int) -> None:
        self._head_bytes += num_bytes
        if self._head_bytes > HEAD_BUFFER:
            self._abort_connection(f"the head of a request is longer than {HEAD_BUFFER} bytes")

    def _cancel_head_timer(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _abort_connection(self, reason: str) -> None:
        log.info("connection cut: %s", reason)
        if self._raw_transport is not None:
            self._raw_transport.abort()


def with_slow_client_limits(base: type[Any], slow_reader_s: float, slow_head_s: float) -> type[Any]:
    """Return a subclass of uvicorn's protocol class ``base`` that aborts slow connections.

    A connection is slow where its client takes too little for ``slow_reader_s``, or where its next request has begun
    and has no complete head after ``slow_head_s``; a new connection counts as begun.
    """
    return type("Impatient", (_SlowClientMixin, base), {"slow_reader_s": slow_reader_s, "slow_head_s": slow_head_s})
