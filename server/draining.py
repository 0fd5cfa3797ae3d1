"""Shut the server down gracefully: give notice, refuse new requests, finish running ones, end the rest with an error.

    SIGTERM   /ready and new requests: 503 at once, on a listener that stays open for ``drain_notice_s``
              running and waiting requests continue for ``shutdown_grace_s``, then end with an error of their own
    SIGINT    the same without the notice, since a terminal user has no load balancer
    again     running requests end at once, and the process a moment later; a third signal exits immediately

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

# Time to send the last chunks of ended answers.
FLUSH_S: Final = 2.0


class DrainingServer(uvicorn.Server):
    """Drain requests before uvicorn's own shutdown.

    ``config`` must allow ``graceful_s`` for that shutdown.
    """

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
        """Schedule the shutdown on the event loop.

        Runs between any two instructions of the main thread, so it does nothing else.
        """
        self._signals += 1
        if self._signals > 2 or self._loop is None:
            os._exit(128 + sig)
        self._loop.call_soon_threadsafe(self._on_signal, sig, self._signals > 1)

    def stop(self, notice_s: float = 0.0) -> None:
        """Begin to drain; the listener closes after ``notice_s`` seconds.

        Does not block; further calls have no effect.
        """
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
    """Return how long uvicorn must wait for connections, in whole seconds."""
    return math.ceil(settings.shutdown_grace_s + FLUSH_S)
