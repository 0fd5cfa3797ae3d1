"""Know whether the model's server answers, and what it takes.

One address, of a ``vllm serve`` process or of a router before several: choosing among replicas and failing over is the
router's work (docs/scale-out.md).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from models.engines.base import RemoteOptions
from models.engines.remote_engine.connection import Connection
from models.engines.remote_engine.wire import AddressNotPrivate, Dialect, ReplicaLost
from models.errors import EngineUnavailable

log = logging.getLogger(__name__)

# A router's own route is asked first: its /health is 503 while one of its replicas is down. vLLM has /health alone.
_HEALTH_PATHS: Final = ("/readiness", "/health")
# One that is busy may miss a probe.
_MOST_MISSES: Final = 1
Check = Callable[[Connection], Awaitable[Dialect]]


class ModelServer:
    """Watch the server from ``start`` to ``close``; ``check`` tells what it takes.

    It is checked again when it comes back, as it may serve another model then.
    """

    def __init__(self, connection: Connection, options: RemoteOptions, check: Check) -> None:
        self.connection = connection
        self.dialect: Dialect | None = None
        self._options = options
        self._check = check
        self._up = asyncio.Event()
        self._suspected = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._down_since: float | None = None
        self._misses = 0

    @property
    def seconds_without(self) -> float:
        """Return for how long it has not answered, 0 where it does."""
        return 0.0 if self._down_since is None else asyncio.get_running_loop().time() - self._down_since

    async def start(self) -> None:
        """Wait until it serves the model.

        Raises:
            EngineUnavailable: it serves something else, or does not answer in time.
        """
        until = asyncio.get_running_loop().time() + self._options.start_s
        while cause := await self._admit():
            if asyncio.get_running_loop().time() > until:
                raise EngineUnavailable(
                    f"model.url: {self.connection.url} does not answer after {self._options.start_s:g} s: {cause}"
                )
            await asyncio.sleep(self._options.probe_every_s)
        self._watching = asyncio.create_task(self._watch(), name="model-server-watch")

    async def close(self) -> None:
        task, self._watching = self._watching, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._up.set()
        with suppress(Exception):
            await self.connection.close()

    async def ready(self) -> Dialect:
        """Wait until the server answers, and return what it takes.

        Raises:
            EngineUnavailable: it does not while a request waits, or the engine was stopped.
        """
        try:
            async with asyncio.timeout(self._options.wait_s):
                await self._up.wait()
        except TimeoutError:
            raise EngineUnavailable(f"no replica answered in {self._options.wait_s:g} s") from None
        if self._watching is None or self.dialect is None:
            raise EngineUnavailable("the engine was stopped")
        return self.dialect

    def suspect(self) -> None:
        """Send nothing more to a server that failed a request until it has been found healthy."""
        self._set_up(False)
        self._suspected.set()

    async def _watch(self) -> None:
        refusal = ""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._options.probe_every_s):
                    await self._suspected.wait()
            self._suspected.clear()
            try:
                await self._look()
                refusal = ""
            except Exception as error:  # a reply of another form must not end the watch
                self._forget()
                if str(error) != refusal:
                    log.error("model server refused: %s", error)
                refusal = str(error)

    async def _look(self) -> None:
        """Ask for its health, and check it where it was away."""
        self._misses = 0 if await self._is_well() else self._misses + 1
        if self._misses > _MOST_MISSES:
            self._forget()
        elif not self._misses and self.dialect is None:
            await self._admit()
        elif not self._misses:
            self._set_up(True)

    async def _is_well(self) -> bool:
        for path in _HEALTH_PATHS:
            try:
                reply = await self.connection.ask(path, self._options.probe_timeout_s)
            except AddressNotPrivate:
                raise
            except ReplicaLost:
                return False
            if reply.status != 404:
                return reply.status < 400
        return False

    async def _admit(self) -> str:
        """Check the server and use it; return why it does not answer, "" where it does.

        Raises:
            EngineUnavailable: it serves something else, or its address is not one that may be asked.
        """
        try:
            self.dialect = await self._check(self.connection)
        except AddressNotPrivate as error:
            raise EngineUnavailable(str(error)) from error
        except ReplicaLost as lost:
            log.debug("model server not used: url=%s cause=%s", self.connection.url, lost)
            return str(lost)
        self._set_up(True)
        return ""

    def _forget(self) -> None:
        self.dialect = None
        self._set_up(False)

    def _set_up(self, is_up: bool) -> None:
        if is_up == self._up.is_set():
            return
        if is_up:
            self._up.set()
            log.info("model server up: url=%s", self.connection.url)
        else:
            self._up.clear()
            log.warning("model server down: url=%s", self.connection.url)
        self._down_since = None if is_up else asyncio.get_running_loop().time()
