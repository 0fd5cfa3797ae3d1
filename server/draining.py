"""The end of the process in good order: first tell, then refuse, then finish, then end what is left with an error.

    SIGTERM   /ready and new requests: 503 at once, on a listener that stays open for ``drain_notice_s``
              what runs and waits goes on for ``shutdown_grace_s``, then ends with an error of its own
    SIGINT    the same without the notice: somebody at a terminal, and no load balancer
    again     what runs ends at once, and the process a moment later; a third signal does not wait for anything

uvicorn by itself closes the listener first and cuts streams where they are.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
from types import FrameType
from typing import Final

import uvicorn

from server.services import Services
from server.settings import ServerSettings

log = logging.getLogger(__name__)

# For the last chunks of what was ended to leave.
FLUSH_S: Final = 2.0


class DrainingServer(uvicorn.Server):
    """``config`` must allow ``graceful_s`` for its own shutdown."""

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
        self._services = services
        self._signals = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining: asyncio.Task[None] | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called between any two instructions of the main thread, so it only hands on."""
        self._signals += 1
        if self._signals > 2 or self._loop is None:
            os._exit(128 + sig)
        self._loop.call_soon_threadsafe(self._on_signal, sig, self._signals > 1)

    def stop(self, notice_s: float = 0.0) -> None:
        """Begin to drain; the listener closes after ``notice_s`` seconds. Does not block, and once is enough."""
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain(notice_s), name="drain")

    def _on_signal(self, sig: int, again: bool) -> None:
        if not again:
            self.stop(self._services.settings.server.drain_notice_s if sig == signal.SIGTERM else 0.0)
            return
        log.warning("told again to stop: ending now")
        self._services.end_answers()
        self.should_exit = True
        assert self._loop is not None
        self._loop.call_later(FLUSH_S, os._exit, 128 + sig)

    async def _drain(self, notice_s: float) -> None:
        services = self._services
        log.info("draining: in_flight=%d waiting=%d", services.in_flight, services.admission.waiting)
        services.drain()
        grace_s = services.settings.server.shutdown_grace_s
        asyncio.get_running_loop().call_later(grace_s, services.end_answers)
        await asyncio.sleep(notice_s)
        self.should_exit = True


def graceful_s(settings: ServerSettings) -> int:
    """What uvicorn must wait for connections, whole seconds."""
    return math.ceil(settings.shutdown_grace_s + FLUSH_S)
