"""What one client can make the server hold: bounded buffers for each connection, and an end to those nobody reads.

uvicorn stops taking bytes of a reply when its buffer is full, and asks for more when it is nearly empty. Here the time
between the two is bounded. A connection that is cut looks to the answer like a client that left: it ends, and its
place and engine slot are free. Knows nothing of what is sent.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any, Final

log = logging.getLogger(__name__)

# Bytes of a reply that this process holds for a client, and about as many as the system does (it takes double).
STREAM_BUFFER: Final = 65_536
SOCKET_BUFFER: Final = 131_072


def bound_listener(listener: socket.socket, slow_reader_s: float) -> None:
    """Every connection that ``listener`` accepts inherits this."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
    # asyncio sets it only where the listener names its protocol, which ours does not; without it a stream's second
    # packet waits up to 40 ms for the client's acknowledgement of the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A connection may also hang with the end of its reply in the buffers, when no more is written. The system ends it,
    # later than we would: its time begins with the first byte that is not taken, ours when the buffers are full.
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(2 * slow_reader_s * 1000))


def impatient(base: type[Any], slow_reader_s: float) -> type[Any]:
    """uvicorn's protocol class ``base``, which cuts off a client that takes too little for ``slow_reader_s``."""

    class Impatient(base):  # type: ignore[misc]
        _cut: asyncio.TimerHandle | None = None
        _wire: asyncio.Transport | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            transport.set_write_buffer_limits(high=STREAM_BUFFER)
            self._wire = transport
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            self._keep()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._cut = asyncio.get_running_loop().call_later(slow_reader_s, self._cut_off)

        def resume_writing(self) -> None:
            self._keep()
            super().resume_writing()

        def _keep(self) -> None:
            if self._cut is not None:
                self._cut.cancel()
                self._cut = None

        def _cut_off(self) -> None:
            log.info("connection cut: its client took nothing for %g s", slow_reader_s)
            if self._wire is not None:
                self._wire.abort()

    return Impatient
