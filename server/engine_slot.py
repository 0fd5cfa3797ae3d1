"""Holds the one engine of the process while it loads, serves and stops. Knows nothing of HTTP or methods."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from models.catalog import ModelCard
from models.engines.base import Engine
from models.errors import ArrowheadError, EngineUnavailable

log = logging.getLogger(__name__)

State = Literal["loading", "ready", "failed", "closed"]


class EngineSlot:
    """``build`` imports the engine's libraries, so it runs in a thread, at ``load``."""

    def __init__(self, card: ModelCard, build: Callable[[], Engine]) -> None:
        self.card = card
        self.failure: ArrowheadError | None = None
        self._build = build
        self._engine: Engine | None = None
        self._state: State = "loading"
        self._since = time.monotonic()
        self._warm_up: list[Callable[[Engine], Awaitable[None]]] = []

    def when_loaded(self, warm_up: Callable[[Engine], Awaitable[None]]) -> None:
        """Run ``warm_up`` before the first request: what would make that one slow. Its failure costs a warning."""
        self._warm_up.append(warm_up)

    @property
    def state(self) -> State:
        """``failed`` also when a loaded engine died."""
        if self._state == "ready" and self._engine is not None and not self._engine.is_ready():
            return "failed"
        return self._state

    @property
    def seconds(self) -> float:
        """Since loading began or, once it ended, how long it took."""
        return self._loaded_in if self._state == "ready" else time.monotonic() - self._since

    def get(self) -> Engine:
        """Raises EngineUnavailable with the reason while there is no engine to use."""
        if self.state == "ready" and self._engine is not None:
            return self._engine
        if self._state == "loading":
            raise EngineUnavailable(f"{self.card.name} is loading, for {self.seconds:.0f} s now")
        if self.failure is not None:
            raise EngineUnavailable(f"{self.card.name} could not be loaded")
        raise EngineUnavailable(f"{self.card.name} has stopped")

    async def load(self) -> None:
        """Build and start the engine; a failure is kept in ``failure`` and logged, not raised."""
        self._since = time.monotonic()
        try:
            self._engine = await _in_daemon_thread(self._build)
            await self._engine.start()
            for warm_up in self._warm_up:
                await self._run(warm_up, self._engine)
        except ArrowheadError as error:
            self._fail(error)
        except Exception as error:
            log.debug("engine failed to load", exc_info=True)
            self._fail(EngineUnavailable(f"{type(error).__name__}: {error}"))
        else:
            self._loaded_in = time.monotonic() - self._since
            self._state = "ready"
            log.info("model ready: name=%s seconds=%.1f", self.card.name, self._loaded_in)

    async def _run(self, warm_up: Callable[[Engine], Awaitable[None]], engine: Engine) -> None:
        try:
            await warm_up(engine)
        except ArrowheadError as error:
            log.warning("warm-up failed: name=%s cause=%s", self.card.name, error.message)

    def _fail(self, error: ArrowheadError) -> None:
        self.failure = error
        self._state = "failed"
        log.error("model not loaded: name=%s cause=%s", self.card.name, error.message)

    async def close(self) -> None:
        self._state = "closed"
        if self._engine is not None:
            await self._engine.close()


async def _in_daemon_thread(work: Callable[[], Engine]) -> Engine:
    """As ``asyncio.to_thread``, but a process that is told to stop does not wait for the end of a long import."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Engine] = loop.create_future()

    def settle(engine: Engine | None, error: Exception | None) -> None:
        if result.done():
            return
        if engine is not None:
            result.set_result(engine)
        elif error is not None:
            result.set_exception(error)

    def run() -> None:
        engine: Engine | None = None
        failure: Exception | None = None
        try:
            engine = work()
        except Exception as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, engine, failure)
        except RuntimeError:
            log.debug("the event loop ended while the engine was being built")

    threading.Thread(target=run, name="engine-load", daemon=True).start()
    return await result
