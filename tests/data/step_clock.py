"""A clock for code that waits."""

from __future__ import annotations

import asyncio


class StepClock:
    """Time that passes only by sleeping; the shortest sleeper wakes first."""

    def __init__(self, time: float = 0.0) -> None:
        self.time = time

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        until = self.time + seconds
        await asyncio.sleep(0)
        self.time = max(self.time, until)
