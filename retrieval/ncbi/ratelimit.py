"""Space requests in time, first come, first served.

Knows neither the requests nor the reason for the wait.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, Protocol

# 1/rate exactly is not enough: NCBI refuses requests spaced 0.333 s apart and takes those 0.37 s apart.
_MARGIN: Final = 1.1


class Clock(Protocol):
    """Provide time in seconds; ``now`` never goes back."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """Read the monotonic clock of the system."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def interval_for(rate_per_s: float) -> float:
    """Return the seconds between two requests for a rate that NCBI permits."""
    return _MARGIN / rate_per_s


def ncbi_rate(*, has_key: bool) -> float:
    """Return the requests per second that NCBI's rules permit."""
    return 10.0 if has_key else 3.0


class RateLimiter:
    """Space all requests of the process; an ``interval_s`` of 0 adds no wait."""

    def __init__(self, interval_s: float, clock: Clock) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._next_at = float("-inf")
        # asyncio's lock wakes its waiters in order, and a cancelled waiter just leaves the queue.
        self._lock = asyncio.Lock()

    async def acquire(self) -> None:
        """Wait for the caller's turn; a caller cancelled while it waits uses no turn."""
        async with self._lock:
            # A loop, because hold_off may postpone the next turn during the sleep.
            while (wait := self._next_at - self._clock.now()) > 0:
                await self._clock.sleep(wait)
            self._next_at = self._clock.now() + self._interval_s

    def hold_off(self, seconds: float) -> None:
        """Delay all requests by at least ``seconds`` from now, as the server has requested."""
        self._next_at = max(self._next_at, self._clock.now() + seconds)
