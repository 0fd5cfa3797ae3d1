"""Bound the stages of a review in time, and yield its events while it works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Final

from server.methods.base import Event

# Shares of the time of an answer that a stage may take; what is left is for the synthesis.
_SHARES: Final = {
    "linking": 0.05,
    "queries": 0.15,
    "search": 0.3,
    "fetch": 0.25,
    "screening": 0.3,
    "judging": 0.3,
    "table": 0.1,
}
_LEAST: Final = 0.05


class Deadline:
    """Measure the time of one answer and give each stage its share."""

    def __init__(self, seconds: float) -> None:
        self._whole = seconds
        self._end = asyncio.get_running_loop().time() + seconds

    def share(self, stage: str) -> float:
        """Return the seconds that a stage may take now; one without a share may take all that is left."""
        part = _SHARES.get(stage, 1.0)
        return max(_LEAST, min(part * self._whole, self._end - asyncio.get_running_loop().time()))


async def as_they_come(
    work: Callable[[], Coroutine[Any, Any, None]], events: asyncio.Queue[Event | None]
) -> AsyncGenerator[Event, None]:
    """Run a work and yield the events that it puts there, each at once; closing the iterator cancels the work.

    What the work raises is raised here, behind its events.
    """
    task = asyncio.ensure_future(work())
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
