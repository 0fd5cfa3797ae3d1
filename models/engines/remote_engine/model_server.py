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
_FAILURES: Final = 2
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
        self._failures = 0
        self._is_known = False
        self._cause = ""

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
        while not await self._admit():
            if asyncio.get_running_loop().time() > until:
                raise EngineUnavailable(
                    f"model.url: {self.connection.url} does not answer after {self._options.start_s:g} s: {self._cause}"
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
        self._set_down()
        self._suspected.set()

    async def _watch(self) -> None:
        refusal = ""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._options.probe_every_s):
                    await self._suspected.wait()
            was_suspected = self._suspected.is_set()
            self._suspected.clear()
            try:
                await self._look()
                refusal = ""
            except (EngineUnavailable, AddressNotPrivate) as error:
                self._set_down(is_known=False)
                if str(error) != refusal:
                    log.error("model server refused: %s", error)
                refusal = str(error)
            except Exception as error:  # a reply of another form must not end the watch
                log.warning("model server not checked: url=%s cause=%s", self.connection.url, type(error).__name__)
            if was_suspected and not self._up.is_set():
                # One that fails each request but reports health must not be probed without a pause.
                await asyncio.sleep(self._options.probe_every_s / 4)

    async def _look(self) -> None:
        """Ask for its health; it is down when that has failed twice in a row, or once where nothing listens."""
        misses = await self._misses()
        self._failures = self._failures + misses if misses else 0
        if self._failures >= _FAILURES:
            self._set_down(is_known=False)
        elif self._is_known:
            self._set_up()
        else:
            await self._admit()

    async def _misses(self) -> int:
        try:
            for path in _HEALTH_PATHS:
                reply = await self.connection.ask(path, self._options.probe_timeout_s)
                if reply.status != 404:
                    return int(reply.status >= 400)
        except AddressNotPrivate:
            raise
        except ReplicaLost as lost:
            return _FAILURES if "ConnectError" in str(lost) else 1
        return 1

    async def _admit(self) -> bool:
        """Check the server and use it; return whether it answered.

        Raises:
            EngineUnavailable: it serves something else, or its address is not one that may be asked.
        """
        try:
            self.dialect = await self._check(self.connection)
        except AddressNotPrivate as error:
            raise EngineUnavailable(str(error)) from error
        except ReplicaLost as lost:
            self._cause = str(lost)
            log.debug("model server not used: url=%s cause=%s", self.connection.url, lost)
            return False
        self._is_known = True
        self._set_up()
        return True

    def _set_up(self) -> None:
        if not self._up.is_set():
            log.info("model server up: url=%s", self.connection.url)
        self._down_since = None
        self._up.set()

    def _set_down(self, *, is_known: bool = True) -> None:
        self._is_known = self._is_known and is_known
        if self._up.is_set():
            self._up.clear()
            self._down_since = asyncio.get_running_loop().time()
            log.warning("model server down: url=%s", self.connection.url)
