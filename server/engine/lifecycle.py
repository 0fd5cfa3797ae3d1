"""Manage the life cycle of the process's one engine: load, serve, restart and stop.

Knows nothing of HTTP or methods.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from models.card import ModelCard
from models.engines.base import Engine, ExplainsFailure, ServesOpenAi
from models.errors import ENGINE_DIED, ENGINE_LOADING, ArrowheadError, EngineUnavailable, kind_of
from server.daemon_thread import run_in_daemon_thread

MAX_DELAY_S: Final = 60.0


@dataclass(slots=True)
class RestartPolicy:
    """Limit the restarts of an engine, with exponential backoff.

    At most ``tries`` within ``window_s`` seconds. The first one waits ``backoff_s`` seconds, each further one of it
    twice as long as the one before, up to ``MAX_DELAY_S``.
    """

    tries: int = 3
    window_s: float = 600.0
    backoff_s: float = 1.0
    total: int = 0
    _restart_times: deque[float] = field(default_factory=deque)

    def next_delay(self, now: float) -> float | None:
        """Count a restart and return its delay in seconds, None if none is left.

        ``now``: seconds of any monotonic clock.
        """
        while self._restart_times and now - self._restart_times[0] > self.window_s:
            self._restart_times.popleft()
        if len(self._restart_times) >= self.tries:
            return None
        delay = min(self.backoff_s * 2 ** len(self._restart_times), MAX_DELAY_S)
        self._restart_times.append(now)
        self.total += 1
        return float(delay)


log = logging.getLogger(__name__)
State = Literal["loading", "ready", "restarting", "failed", "closed"]
_LOOK_EVERY_S: Final = 0.25
# A dead engine may hang while it closes.
_CLOSE_S: Final = 60.0
# The folders of an absolute path: not those behind a host, and not a slash between words.
_FOLDERS: Final = re.compile(r"(?<![\w/:.])/(?:[^\s/'\":,]+/)*")


class EngineLifecycle:
    """Load, supervise and restart the engine.

    ``build`` imports the engine's libraries, so it runs in a thread, at ``load`` and at each restart.
    """

    def __init__(self, card: ModelCard, build: Callable[[], Engine], restarts: RestartPolicy | None = None) -> None:
        self.card = card
        self.failure: ArrowheadError | None = None
        self.restarts = restarts or RestartPolicy()
        # Set when there is no engine and there will be none.
        self.permanently_failed = asyncio.Event()
        self._build = build
        self._engine: Engine | None = None
        self._state: State = "loading"
        self._began = time.monotonic()
        self._since = time.time()
        self._loaded_in = 0.0
        self._next_try = 0.0
        self._warm_up: list[Callable[[Engine], Awaitable[None]]] = []
        self._supervisor: asyncio.Task[None] | None = None

    def when_loaded(self, warm_up: Callable[[Engine], Awaitable[None]]) -> None:
        """Run ``warm_up`` before the first request, for work that would otherwise slow that request down.

        Its failure is only logged as a warning.
        """
        self._warm_up.append(warm_up)

    @property
    def state(self) -> State:
        """Return the state; ``restarting`` from the moment in which a loaded engine dies."""
        if self._state == "ready" and not self._is_alive():
            return "restarting"
        return self._state

    @property
    def reason(self) -> str:
        """Return the kind of failure, "" where there is none.

        ``cause`` has more.
        """
        if self.failure is not None:
            return kind_of(self.failure)
        return ENGINE_DIED.kind if self.state in ("restarting", "failed") else ""

    @property
    def cause(self) -> str:
        """Return what the failure says, "" where there is none; of a path on this machine only the last name."""
        if self.failure is None:
            return ""
        source, said = self.card.source, self.failure.message
        return _FOLDERS.sub("", said.replace(source, self.card.name) if source.startswith("/") else said)

    @property
    def since(self) -> int:
        """Return the Unix time at which the state was entered."""
        return int(self._since)

    @property
    def seconds(self) -> float:
        """Return the seconds since loading or restarting began or, once it ended, its duration."""
        return self._loaded_in if self._state == "ready" else time.monotonic() - self._began

    def get(self) -> Engine:
        """Return the engine.

        Raises:
            EngineUnavailable: there is no engine to use; the message has the reason.
        """
        state = self.state
        if state == "ready" and self._engine is not None:
            return self._engine
        if state == "loading":
            raise EngineUnavailable(f"{self.card.name} is loading, for {self.seconds:.0f} s now", ENGINE_LOADING)
        if state == "restarting":
            wait = max(1, math.ceil(self._next_try - time.monotonic() + self._loaded_in))
            raise EngineUnavailable(
                f"the engine of {self.card.name} has died and is being restarted", ENGINE_DIED, retry_after_s=wait
            )
        if ENGINE_DIED.is_of(self.failure) or (state == "failed" and self._state == "ready"):
            raise EngineUnavailable(f"the engine of {self.card.name} has died", ENGINE_DIED)
        if self.failure is not None:
            raise EngineUnavailable(f"{self.card.name} could not be loaded")
        raise EngineUnavailable(f"{self.card.name} has stopped")

    @property
    def may_serve_openai(self) -> bool:
        """Return whether the engine has an OpenAI layer of its own; true as long as no engine is known."""
        return self._engine is None or isinstance(self._engine, ServesOpenAi)

    async def load(self) -> None:
        """Build, start and supervise the engine.

        A failure is stored in ``failure`` and logged, not raised.
        """
        error = await self._try_to_start()
        if error is not None:
            self._lose(error)
            log.error("model not loaded: name=%s cause=%s", self.card.name, error.message)
            return
        self._enter("ready")
        log.info("model ready: name=%s seconds=%.1f", self.card.name, self._loaded_in)
        self._supervisor = asyncio.create_task(self._supervise(), name="engine-supervisor")

    async def close(self) -> None:
        self._enter("closed")
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
        if self._engine is not None:
            await self._engine.close()

    async def _supervise(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            if self._is_alive():
                continue
            cause = _cause_of(self._engine)
            log.error("engine died: name=%s cause=%s", self.card.name, cause or "not known")
            self.failure = EngineUnavailable(
                f"the engine has died: {cause}" if cause else "the engine has died", ENGINE_DIED
            )
            self._began = time.monotonic()
            if not await self._restart():
                self._lose(
                    EngineUnavailable(
                        f"{self.failure.message}; restarts in the window: {self.restarts.tries}", ENGINE_DIED
                    )
                )
                log.error("engine not restarted: name=%s tries=%d", self.card.name, self.restarts.tries)
                return

    async def _restart(self) -> bool:
        while (delay := self.restarts.next_delay(time.monotonic())) is not None:
            self._next_try = time.monotonic() + delay
            if self._state != "restarting":
                self._enter("restarting")
            await self._discard()
            await asyncio.sleep(delay)
            error = await self._try_to_start()
            if error is None:
                self.failure = None
                self._enter("ready")
                log.warning("engine restarted: name=%s seconds=%.1f", self.card.name, self._loaded_in)
                return True
            log.error("engine restart failed: name=%s cause=%s", self.card.name, error.message)
            self.failure = EngineUnavailable(
                f"the engine has died, and no other has started: {error.message}", ENGINE_DIED
            )
        return False

    async def _try_to_start(self) -> ArrowheadError | None:
        """Start an engine and return the error, None where it runs."""
        began = time.monotonic()
        try:
            engine = self._engine = await run_in_daemon_thread(self._build, "engine-load")
            await engine.start()
            for warm_up in self._warm_up:
                await self._run(warm_up, engine)
        except ArrowheadError as error:
            return error
        except Exception as error:
            log.debug("engine failed to load", exc_info=True)
            return EngineUnavailable(f"{type(error).__name__}: {error}")
        self._loaded_in = time.monotonic() - began
        return None

    async def _run(self, warm_up: Callable[[Engine], Awaitable[None]], engine: Engine) -> None:
        try:
            await warm_up(engine)
        except ArrowheadError as error:
            log.warning("warm-up failed: name=%s cause=%s", self.card.name, error.message)

    async def _discard(self) -> None:
        """Close what is left of the old engine: its requests, its memory, its processes."""
        engine, self._engine = self._engine, None
        if engine is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                try:
                    await engine.close()
                except Exception as error:
                    log.warning("dead engine not closed: name=%s cause=%s", self.card.name, type(error).__name__)

    def _is_alive(self) -> bool:
        return self._engine is not None and self._engine.is_ready()

    def _enter(self, state: State) -> None:
        self._state, self._since = state, time.time()

    def _lose(self, error: ArrowheadError) -> None:
        self.failure = error
        self._enter("failed")
        self.permanently_failed.set()


def _cause_of(engine: object) -> str:
    return engine.failure_cause() if isinstance(engine, ExplainsFailure) else ""
