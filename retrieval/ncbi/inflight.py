"""Coalesce equal calls in flight: later callers wait for the first one's result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Flight(Generic[T]):
    task: asyncio.Task[T]
    waiters: int = 0


class InFlight(Generic[T]):
    """Share one task among equal calls; it is cancelled when no caller waits for it any more."""

    def __init__(self) -> None:
        self._flights: dict[str, _Flight[T]] = {}

    def __len__(self) -> int:
        return len(self._flights)

    async def run(self, key: str, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of ``work``, new or already running under ``key``; its error goes to every caller."""
        flight = self._flights.get(key)
        if flight is None:
            flight = _Flight(asyncio.ensure_future(_awaited(work)))
            self._flights[key] = flight
            flight.task.add_done_callback(lambda task: self._landed(key, task))
        flight.waiters += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1
            if not flight.waiters and not flight.task.done():
                self._forget(key, flight.task)
                flight.task.cancel()

    def _landed(self, key: str, task: asyncio.Task[T]) -> None:
        self._forget(key, task)
        if not task.cancelled():
            task.exception()  # without callers, asyncio would log an error that was never retrieved

    def _forget(self, key: str, task: asyncio.Task[T]) -> None:
        flight = self._flights.get(key)
        if flight is not None and flight.task is task:
            del self._flights[key]


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
