"""Spaces requests in time, first come first served. Knows neither what is requested nor why one must wait."""

from __future__ import annotations

import asyncio
import time
from typing import Final, Protocol

# 1/rate exactly is not enough: NCBI refuses requests spaced 0.333 s apart and takes those 0.37 s apart.
_MARGIN: Final = 1.1


class Clock(Protocol):
    """Time in seconds; ``now`` never goes back."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def interval_for(rate_per_s: float) -> float:
    """Seconds between two requests for a rate that NCBI allows."""
    return _MARGIN / rate_per_s


def ncbi_rate(*, has_key: bool) -> float:
    """Requests per second that NCBI's rules allow."""
    return 10.0 if has_key else 3.0


class RateLimiter:
    """One gate for all requests of the process; ``interval_s`` 0 lets everything through at once."""

    def __init__(self, interval_s: float, clock: Clock) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._next_at = float("-inf")
        # asyncio's lock wakes its waiters in order, and a cancelled waiter just leaves the queue.
        self._lock = asyncio.Lock()

    async def acquire(self) -> None:
        """Return when it is the caller's turn. A caller cancelled while it waits uses no turn up."""
        async with self._lock:
            # A loop, because hold_off may move the gate while somebody sleeps before it.
            while (wait := self._next_at - self._clock.now()) > 0:
                await self._clock.sleep(wait)
            self._next_at = self._clock.now() + self._interval_s

    def hold_off(self, seconds: float) -> None:
        """Let nobody through for the next ``seconds``: the server has asked for a pause."""
        self._next_at = max(self._next_at, self._clock.now() + seconds)
